//! Server-sent events, cut out of a stream of bytes (pure). The format is that of the WHATWG HTML standard, section 9.2:
//! lines that end in LF, CRLF or CR; `data:` lines of one event are joined; `event:` names it; a blank line ends it.

/// Gathers bytes in pieces of any size and gives whole events.
#[derive(Debug, Default)]
pub struct Events {
    /// The line that has begun.
    line: Vec<u8>,
    /// The data of the event that has begun.
    data: Vec<u8>,
    has_data: bool,
    /// Its name; most have none.
    name: Vec<u8>,
    after_cr: bool,
    too_long: bool,
}

/// An event larger than this is dropped, and [`Events::too_long`] says so.
const LARGEST_EVENT: usize = 16 << 20;

impl Events {
    /// Takes the next bytes and calls `event` with name and data of each event that is now whole.
    pub fn push(&mut self, mut bytes: &[u8], mut event: impl FnMut(&[u8], &[u8])) {
        while let Some(at) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, rest) = bytes.split_at(at);
            let ending = rest.first().copied();
            // The LF of a CRLF ends nothing: its CR has done so already.
            let second_half = ending == Some(b'\n') && self.after_cr && line.is_empty();
            self.after_cr = ending == Some(b'\r');
            if !second_half {
                self.append(line);
                self.line_ends(&mut event);
            }
            bytes = rest.get(1..).unwrap_or_default();
        }
        if !bytes.is_empty() {
            self.after_cr = false;
            self.append(bytes);
        }
    }

    /// Gives the last event, which servers do not always end with a blank line.
    pub fn finish(&mut self, mut event: impl FnMut(&[u8], &[u8])) {
        if !self.line.is_empty() {
            self.line_ends(&mut event);
        }
        self.event_ends(&mut event);
    }

    /// Whether an event was dropped because it was too large.
    pub fn too_long(&self) -> bool {
        self.too_long
    }

    fn append(&mut self, bytes: &[u8]) {
        if self.line.len() + self.data.len() + bytes.len() > LARGEST_EVENT {
            self.too_long = true;
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn line_ends(&mut self, event: &mut impl FnMut(&[u8], &[u8])) {
        if self.line.is_empty() {
            self.event_ends(event);
            return;
        }
        // Other fields (`id`, `retry`) and comments say nothing that an answer is made of.
        if let Some(value) = self.line.strip_prefix(b"data:") {
            if self.has_data {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            self.has_data = true;
        } else if let Some(name) = self.line.strip_prefix(b"event:") {
            self.name = name.trim_ascii().to_vec();
        }
        self.line.clear();
    }

    fn event_ends(&mut self, event: &mut impl FnMut(&[u8], &[u8])) {
        if self.has_data {
            event(&self.name, &self.data);
        }
        self.data.clear();
        self.name.clear();
        self.has_data = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let (mut events, mut found) = (Events::default(), Vec::new());
        for piece in pieces {
            events.push(piece, |_, data| found.push(String::from_utf8_lossy(data).into_owned()));
        }
        events.finish(|_, data| found.push(String::from_utf8_lossy(data).into_owned()));
        found
    }

    #[test]
    fn every_line_end_comments_and_several_data_lines_are_understood() {
        let text = b": hello\r\ndata: one\r\n\r\nevent: x\ndata:two\ndata: three\n\ndata: four\r\rid: 5\n\ndata: last";
        assert_eq!(events(&[text]), ["one", "two\nthree", "four", "last"]);
    }

    proptest! {
        #[test]
        fn the_events_do_not_depend_on_how_the_bytes_are_cut(
            text in "(data: ?[a-z]{0,3}|:|[a-z]*|\r\n|\n|\r){0,20}",
            cuts in proptest::collection::vec(0_usize..60, 0..6),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(events(&pieces), events(&[bytes]));
        }
    }
}
