// Package express answers queries for clusterset's zones where packets are read: one system call reads many, each gets its reply from the
// snapshot in wire form, one system call writes them. What it doesn't answer goes to CoreDNS's plugin chain.
//
// It keeps one rule: an express reply is one that the chain, with a cold cache, could have written at that moment. Refuse says of a
// Corefile, and Answers.Reply of a packet, when that isn't certain.
//
// Sockets of our own stand beside CoreDNS's, in the same SO_REUSEPORT group, and a BPF program sends them all packets (Linux). Elsewhere
// there is no express path.
package express
