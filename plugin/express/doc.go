// Package express answers queries for clusterset's zones directly at the socket: one system call reads many queries, each gets its reply
// from the snapshot in wire form, and one system call writes the replies. All other queries go to CoreDNS's plugin chain.
//
// It has one rule: an express reply is one that the chain, with a cold cache, could have written at that moment. If that isn't certain,
// Block.Refuse refuses the Corefile, and Answers.Reply leaves the query to the chain.
//
// The package stands between CoreDNS and the sockets and connections that it reads. This needs Linux; other systems have no express path.
package express
