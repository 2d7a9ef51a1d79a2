// Package retention decides which records a service is imported from when the hub has fewer than before. Un-exported services must go, and
// those that the hub lost must stay, without anyone's help and whatever was restarted meanwhile.
//
// The decision is Effective, a pure function. Its inputs are the hub's records, those that the service was last imported from, and what is
// known of the hub and the clusters. The last records are stored in the service's EndpointSlices (desired.StoredKeys), and come back as
// records: they are sanitized, confined to their cluster's networks and merged like the hub's, so that the result is the same as before, and
// nobody gains by editing what is stored. An agent that starts while the hub is away calls the same function without a hub.
//
// What a missing record means is known from these, and each has a promise of its own in docs/spec/control-plane.md:
//
//   - Withdrawn (Departures): its exporter marked it before it deleted it, so it goes at once (C42). Only an event says so.
//   - Seen (Departures): somebody else deleted it while this agent was watching, so its exporter writes it again in seconds (C43).
//   - Since (Absence): all grace periods begin when a part is first found missing (C43, C47).
//   - The MemberCluster, on the hub or its copy here: the cluster has left (C42), is lost, and since when (C44), has joined again without a
//     heartbeat (C44), is Expired (C42, C47), or shares no community (C18).
//   - The Lease (beats): the cluster has sent a heartbeat since, which says that the service's records are in order (C47, C75).
//   - HubTrust: the hub itself can be trusted: it knows this cluster (C40), answers, and takes each kind of record (C41).
package retention
