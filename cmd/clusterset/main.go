// Command clusterset is the control plane of a cluster set: the agent of each member, the hub process that watches their
// heartbeats, and the commands for people.
package main

import "github.com/clusterset/clusterset/cli"

func main() { cli.Main() }
