//! Which free slot takes the next record (pure).

use super::server::Server;
use tokio::time::Instant;

/// The index of the server that takes the next request, if any may: the one with the smallest share of its slots in
/// use. `avoid` (the server that just failed this record) is taken only when no other is free; among equals the turn
/// goes round, starting at `turn`.
pub fn choose(servers: &[Server], turn: usize, avoid: Option<usize>, now: Instant) -> Option<usize> {
    let count = servers.len();
    (0..count)
        .map(|step| (turn + step) % count)
        .filter_map(|index| servers.get(index).map(|server| (index, server)))
        .filter(|(_, server)| server.is_free(now))
        // Shares are compared as whole numbers: millionths of the cap.
        .min_by_key(|(index, server)| (avoid == Some(*index), server.in_flight * 1_000_000 / server.cap))
        .map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(caps: &[usize], now: Instant) -> Vec<Server> {
        let mut servers: Vec<_> = caps.iter().map(|cap| Server::new("http://a".into(), *cap, now)).collect();
        servers.iter_mut().for_each(Server::proven);
        servers
    }

    #[tokio::test(start_paused = true)]
    async fn a_larger_server_gets_more_and_none_more_than_its_cap() {
        let now = Instant::now();
        let mut servers = fleet(&[2, 4], now);
        for turn in 0..6 {
            let index = choose(&servers, turn, None, now).expect("a free slot");
            servers[index].sent(now);
        }
        assert_eq!((servers[0].in_flight, servers[1].in_flight), (2, 4));
        assert_eq!(choose(&servers, 0, None, now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn ties_go_round() {
        let now = Instant::now();
        let servers = fleet(&[8, 8, 8], now);
        let taken: Vec<_> = (0..3).filter_map(|turn| choose(&servers, turn, None, now)).collect();
        assert_eq!(taken, [0, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_server_that_failed_a_record_is_its_last_choice_but_a_choice() {
        let now = Instant::now();
        let mut servers = fleet(&[8, 8], now);
        servers[1].sent(now);
        assert_eq!(choose(&servers, 0, Some(0), now), Some(1));
        servers[1].goes_down(crate::record::Reason::Unreachable, "", now, std::time::Duration::from_secs(9));
        assert_eq!(choose(&servers, 0, Some(0), now), Some(0));
    }
}
