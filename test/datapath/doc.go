// Package datapath tests which backends answer behind a ClusterSetIP, connection by connection. The set has a hub and three
// clusters (test/kube, test/fleet). Each node of a cluster is a network namespace with a real kube-proxy, which watches the
// cluster's API server and programs the namespace's packet filter. Endpoints are small TCP and UDP servers that answer with their
// name.
//
//	s := set(t).service(t, export{}, "xicheng", "minhang") // exported by both
//	own, far := s.pods("xicheng", 2), s.pods("minhang", 1)
//	s.publish()
//	s.answered("xicheng", own...)                          // by each of these, and by no other
//	own.ready(false)
//	s.publish()
//	s.answered("xicheng", far...)
//
// Every check runs from every node of the cluster. xicheng has one node with kube-proxy in nftables mode and one in iptables mode,
// so each case is tested with both.
//
// The tests of the pages in docs/recipes run databases of pods in all three clusters, which find each other by the names that our DNS
// servers answer (recipe).
//
// The tests need Linux, root, and the programs nft, iptables, ip, nsenter and unshare, and TestPostgreSQL Debian's PostgreSQL. Without them
// they are skipped and say so; with CLUSTERSET_DATAPATH=required, which CI sets, they fail instead. The machine's own network stays unchanged: all traffic stays in
// unnamed namespaces, which the kernel removes when this process ends for any reason.
package datapath
