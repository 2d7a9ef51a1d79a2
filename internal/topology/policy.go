package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Policy states how endpoints are chosen. Each field has a default; the zero value states nothing.
type Policy struct {
	// Prefer lists tiers, the most preferred first. All other endpoints come last. Nil means DefaultPrefer. Empty but not nil is
	// "none": no tier is preferred, and all endpoints are equal.
	Prefer []Tier
	// Boundary is a tier. Endpoints outside it are never used. The zero value, Any, is no boundary.
	Boundary Tier
	// MinReady is the number of endpoints that a tier needs. If it has fewer, the next tier is used with it. 0 means 1.
	MinReady int
	// Shares has, by cluster, the per cent of its endpoints that its export lets be used as usual, if that is less than all.
	Shares map[string]int
}

// DefaultPrefer is the default for Prefer: own zone, else own region, else all.
var DefaultPrefer = []Tier{Zone, Region}

// None is an empty Prefer in the Corefile and in annotations.
const None = "none"

// MaxMinReady is the maximum of MinReady: no cluster exports more endpoints of a service.
const MaxMinReady = 100_000

// Or returns p, with the fields that it doesn't state taken from defaults.
func (p Policy) Or(defaults Policy) Policy {
	if p.Prefer == nil {
		p.Prefer = defaults.Prefer
	}
	if p.Boundary == Any {
		p.Boundary = defaults.Boundary
	}
	if p.MinReady == 0 {
		p.MinReady = defaults.MinReady
	}
	return p
}

// IsZero reports whether p states nothing.
func (p Policy) IsZero() bool {
	return p.Prefer == nil && p.Boundary == Any && p.MinReady == 0 && len(p.Shares) == 0
}

// Equal reports whether both state the same.
func (p Policy) Equal(o Policy) bool {
	return p.Boundary == o.Boundary && p.MinReady == o.MinReady && maps.Equal(p.Shares, o.Shares) &&
		(p.Prefer == nil) == (o.Prefer == nil) && slices.Equal(p.Prefer, o.Prefer)
}

// String returns what p states, such as "prefer zone region, min-ready 2". It is empty if p states nothing.
func (p Policy) String() string {
	var words []string
	if p.Prefer != nil {
		words = append(words, "prefer "+FormatPrefer(p.Prefer))
	}
	if p.Boundary != Any {
		words = append(words, "boundary "+p.Boundary.String())
	}
	if p.MinReady > 1 { // 1 is the default
		words = append(words, fmt.Sprintf("min-ready %d", p.MinReady))
	}
	if len(p.Shares) > 0 {
		words = append(words, "shares "+FormatShares(p.Shares))
	}
	return strings.Join(words, ", ")
}

func (p *Policy) prefer() []Tier {
	if p.Prefer == nil {
		return DefaultPrefer
	}
	return p.Prefer
}

// ParsePrefer parses tiers in the syntax of the Corefile, the most preferred first, or "none". The tiers are not nil unless there is
// an error.
func ParsePrefer(s string) ([]Tier, error) {
	const want = "want one or more of cluster, zone and region, the most wanted first, separated by blanks, or none"
	words := strings.Fields(s)
	if len(words) == 1 && words[0] == None {
		return []Tier{}, nil
	}
	if len(words) == 0 {
		return nil, errors.New(want)
	}
	var tiers []Tier
	for _, word := range words {
		t, ok := tierOf(word)
		switch {
		case word == None:
			return nil, errors.New("none stands alone: " + want)
		case !ok:
			return nil, fmt.Errorf("unknown tier %q: %s", word, want)
		case slices.Contains(tiers, t):
			return nil, fmt.Errorf("%s is listed twice: %s", t, want)
		}
		tiers = append(tiers, t)
	}
	return tiers, nil
}

// FormatPrefer formats tiers for ParsePrefer. It returns "" for nil.
func FormatPrefer(tiers []Tier) string {
	if tiers != nil && len(tiers) == 0 {
		return None
	}
	words := make([]string, len(tiers))
	for i, t := range tiers {
		words[i] = t.String()
	}
	return strings.Join(words, " ")
}

// ParseTier parses one tier in the syntax of the Corefile, such as a boundary: cluster, zone or region.
func ParseTier(s string) (Tier, error) {
	t, ok := tierOf(s)
	if !ok {
		return Any, fmt.Errorf("unknown tier %q: want cluster, zone or region", s)
	}
	return t, nil
}

// ParseMinReady parses a Policy's MinReady.
func ParseMinReady(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > MaxMinReady {
		return 0, fmt.Errorf("want a whole number from 1 to %d", MaxMinReady)
	}
	return n, nil
}
