package dns01

import (
	"strings"
	"time"
)

type (
	Client          struct{}
	Options         struct{ RecursiveNameservers []string }
	ChallengeOption struct{}
)

func UnFqdn(name string) string { return strings.TrimSuffix(name, ".") }

func NewClient(*Options) (none *Client)                                     { return }
func SetDefaultClient(*Client)                                              {}
func CondOptions(bool, ...ChallengeOption) (none ChallengeOption)           { return }
func PropagationWait(time.Duration, bool) (none ChallengeOption)            { return }
func DisableAuthoritativeNssPropagationRequirement() (none ChallengeOption) { return }
func DisableRecursiveNSsPropagationRequirement() (none ChallengeOption)     { return }
