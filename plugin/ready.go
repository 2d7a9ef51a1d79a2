package clusterset

// Ready implements ready.Readiness: true once every kind was read, or a snapshot file is answered from, when queries get
// answers and not SERVFAIL. It stays true when the source is lost later, because the last known answers are served then, and
// during a reload, because the server that is being replaced answers until the new one does. It is false from the moment when
// the process is told to end: other servers get the queries then, if ready asks us continuously.
func (c *ClusterSet) Ready() bool {
	return !stopping.Load() && (c.index.Snapshot() != nil || c.source.corefile.replacesOneThatAnswers())
}
