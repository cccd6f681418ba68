//! [`Mask`]: takes the key out of what servers send back.
//!
//! Some gateways answer a refused or failed request with a page that quotes its headers. Replies are kept in `aside`
//! files and told in logs: the key must be gone before anyone reads them, so it is taken out where the bytes come in.

use super::transport::TransportError;
use crate::setting::SecretText;
use bytes::Bytes;
use futures::{Stream, StreamExt, future, stream};
use memchr::memmem;

/// What stands in the place of the key.
const MASKED: &[u8] = b"***";

/// A shorter key can be a word (`EMPTY`, `none`): in a reply that may be an answer, it is left alone.
const NO_WORD: usize = 12;

/// Finds the key in a stream of bytes, also where it is cut between two pieces.
pub(super) struct Mask {
    key: memmem::Finder<'static>,
    /// The end of the last piece, if the key may begin there.
    held: Vec<u8>,
}

impl Mask {
    /// What is needed to mask `key` in a reply; `None` if such a reply is left as it is.
    pub(super) fn new(key: &SecretText, is_error: bool) -> Option<Mask> {
        let key = key.expose().as_bytes();
        let masks = !key.is_empty() && (is_error || key.len() >= NO_WORD);
        masks.then(|| Mask { key: memmem::Finder::new(key).into_owned(), held: Vec::new() })
    }

    /// The same pieces without the key.
    pub(super) fn over(
        mut self,
        pieces: impl Stream<Item = Result<Bytes, TransportError>>,
    ) -> impl Stream<Item = Result<Bytes, TransportError>> {
        let with_end = pieces.map(Some).chain(stream::once(future::ready(None)));
        let masked = with_end.map(move |piece| match piece {
            Some(piece) => piece.map(|piece| self.piece(piece)),
            None => Ok(Bytes::from(std::mem::take(&mut self.held))),
        });
        masked.filter(|piece| future::ready(piece.as_ref().map_or(true, |piece| !piece.is_empty())))
    }

    /// The next piece without the key, and without an end that may be the beginning of one.
    fn piece(&mut self, piece: Bytes) -> Bytes {
        let mut rest = piece;
        if !self.held.is_empty() {
            self.held.extend_from_slice(&rest);
            rest = std::mem::take(&mut self.held).into();
        }
        let mut masked = Vec::new();
        while let Some(at) = self.key.find(&rest) {
            masked.extend_from_slice(&rest.split_to(at));
            masked.extend_from_slice(MASKED);
            drop(rest.split_to(self.key.needle().len()));
        }
        let key = self.key.needle();
        let begun = (1..key.len()).rev().find(|begun| key.get(..*begun).is_some_and(|begin| rest.ends_with(begin)));
        self.held = rest.split_off(rest.len() - begun.unwrap_or(0)).into();
        if masked.is_empty() {
            return rest;
        }
        masked.extend_from_slice(&rest);
        masked.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-sk-sk-0123";

    async fn masked(pieces: &[&str]) -> String {
        let mask = Mask::new(&SecretText::new(KEY), false).expect("it is long enough");
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece.as_bytes()))).collect();
        let pieces = mask.over(stream::iter(pieces)).collect::<Vec<_>>().await;
        pieces.into_iter().map(|piece| String::from_utf8(piece.expect("no error").into()).expect("text")).collect()
    }

    #[tokio::test]
    async fn the_key_is_masked_wherever_it_is_cut() {
        let text = format!("Bearer {KEY}{KEY}, sk-{KEY} and {KEY}");
        for at in 0..=text.len() {
            let (before, after) = text.split_at(at);
            assert_eq!(masked(&[before, after]).await, "Bearer ******, sk-*** and ***", "cut at {at}");
        }
        let letters: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(
            masked(&letters.iter().map(String::as_str).collect::<Vec<_>>()).await,
            "Bearer ******, sk-*** and ***"
        );
    }

    #[tokio::test]
    async fn all_other_bytes_pass_also_those_that_only_begin_like_the_key() {
        for text in ["", "an answer", "sk-sk-sk-012", "sk-sk-sk-sk-012 sk"] {
            assert_eq!(masked(&[text]).await, text);
            assert_eq!(masked(&["s", "k", text, "s"]).await, format!("sk{text}s"));
        }
    }

    #[test]
    fn a_key_that_may_be_a_word_is_masked_in_errors_only() {
        let word = SecretText::new("EMPTY");
        assert!(Mask::new(&word, false).is_none());
        assert!(Mask::new(&word, true).is_some());
    }
}
