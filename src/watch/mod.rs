//! Numbers made from the accounts of edges, stages and servers. Nobody below knows this module, and it prints nothing.

mod rate;

pub use rate::Rate;
