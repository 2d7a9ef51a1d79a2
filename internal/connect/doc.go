// Package connect connects our processes to API servers. It has clients that know our kinds, and a member agent's connection to
// its hub, with credentials that the agent renews. Package join creates them.
package connect
