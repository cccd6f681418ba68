//! Numbers from the accounts; prints nothing.
