package clusterset

// Ready implements ready.Readiness: true once every kind was read, or a snapshot file is answered from, when queries get
// answers and not SERVFAIL. It stays true when the source is lost later, because the last known answers are served then.
func (c *ClusterSet) Ready() bool { return c.index.Snapshot() != nil }
