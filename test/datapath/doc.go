// Package datapath asks who answers behind a ClusterSetIP, connection by connection. The set has a hub and three clusters
// (test/kube, test/fleet); each node of a cluster is a network namespace with a real kube-proxy, which reads the cluster's API
// server and programs the namespace's packet filter. Endpoints are small TCP and UDP servers that answer with their name.
//
//	s := set(t).service(t, export{}, "xicheng", "minhang") // exported by both
//	own, far := s.pods("xicheng", 2), s.pods("minhang", 1)
//	s.publish()
//	s.answered("xicheng", own...)                          // by each of these, and by no other
//	own.ready(false)
//	s.publish()
//	s.answered("xicheng", far...)
//
// What is asked is asked from every node of the cluster. xicheng has one with kube-proxy in nftables mode and one in iptables
// mode, so that each case holds for both.
//
// It takes Linux, root, and the programs nft, iptables, ip and nsenter. Where they are missing its tests are skipped and say
// so; CLUSTERSET_DATAPATH=required, which CI sets, has them fail instead. The machine's own network is left alone: all traffic
// is inside of namespaces that have no name, and that the kernel removes when this process ends, however it ends.
package datapath
