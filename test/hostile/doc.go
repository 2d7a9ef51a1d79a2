// Package hostile measures what one stolen member credential costs the rest of the set: a thief with the token that join made writes
// records and heartbeats of every shape to the hub, as fast and as much as the hub lets it, while another cluster's service changes.
package hostile
