package clusterset

// Ready implements ready.Readiness. It is true once every kind has been read or a snapshot file has been restored: from then
// on queries get answers instead of SERVFAIL. It stays true when the source is lost, because the last known answers are
// served, and during a reload, because the old server answers until the new one does. It is false as soon as the process is
// told to stop, so that other servers get the queries, provided that the ready plugin monitors continuously.
func (c *ClusterSet) Ready() bool {
	return !stopping.Load() && (c.index.Snapshot() != nil || c.source.corefile.replacesOneThatAnswers())
}
