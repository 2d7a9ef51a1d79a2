// Package prober measures which other clusters of the set this one can reach, and says so in the Reachability of this cluster. It runs in
// each member's leading agent:
//
//	MemberReports on the hub ─► addresses (internal/beacon)
//	  ─ dials ─► internal/verdict (pure) ─► verdicts
//	  ─► Reachability local, which DNS servers watch; the importer, which asks Reaches
//
// Rules D40 to D52 of docs/spec/data-path.md. It deletes nothing, and a verdict only changes what is preferred: without a beacon, without
// the rights it needs, or while it is down, everything works as if it didn't exist.
package prober
