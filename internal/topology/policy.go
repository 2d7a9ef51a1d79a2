package topology

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Policy is how endpoints are chosen. In the zero value nothing is stated: each field has a default.
type Policy struct {
	// Prefer lists tiers from the most to the least wanted; all the others follow the last. Nil means DefaultPrefer. Empty
	// but not nil is "none": no tier, every endpoint is as good as any other.
	Prefer []Tier
	// Boundary is a tier outside of which no endpoint is ever used. Any, the zero value, is no boundary.
	Boundary Tier
	// MinReady is how many endpoints make a tier enough. Below that the next tier joins it. 0 means 1.
	MinReady int
}

// DefaultPrefer is the order that holds when nobody states one: own zone, else own region, else all.
var DefaultPrefer = []Tier{Zone, Region}

// None is the word for an empty Prefer, in the Corefile and in annotations.
const None = "none"

// MaxMinReady is the most that a Policy can ask for: no cluster's part of a service has more endpoints.
const MaxMinReady = 100_000

// Or returns p with what it doesn't state taken from defaults.
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
func (p Policy) IsZero() bool { return p.Prefer == nil && p.Boundary == Any && p.MinReady == 0 }

// Equal reports whether both state the same.
func (p Policy) Equal(o Policy) bool {
	return p.Boundary == o.Boundary && p.MinReady == o.MinReady &&
		(p.Prefer == nil) == (o.Prefer == nil) && slices.Equal(p.Prefer, o.Prefer)
}

// String says what p states, such as "prefer zone region, min-ready 2"; nothing where that is nothing.
func (p Policy) String() string {
	var words []string
	if p.Prefer != nil {
		words = append(words, "prefer "+FormatPrefer(p.Prefer))
	}
	if p.Boundary != Any {
		words = append(words, "boundary "+p.Boundary.String())
	}
	if p.MinReady > 1 { // 1 is what it is where nobody says
		words = append(words, fmt.Sprintf("min-ready %d", p.MinReady))
	}
	return strings.Join(words, ", ")
}

func (p *Policy) prefer() []Tier {
	if p.Prefer == nil {
		return DefaultPrefer
	}
	return p.Prefer
}

// ParsePrefer reads tiers in the words of the Corefile, the most wanted first, or the one word "none". The tiers are never nil
// then.
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

// FormatPrefer writes tiers as ParsePrefer reads them, "" for nil.
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

// ParseTier reads one tier as the Corefile writes it, such as a boundary: cluster, zone or region.
func ParseTier(s string) (Tier, error) {
	t, ok := tierOf(s)
	if !ok {
		return Any, fmt.Errorf("unknown tier %q: want cluster, zone or region", s)
	}
	return t, nil
}

// ParseMinReady reads a Policy's MinReady.
func ParseMinReady(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > MaxMinReady {
		return 0, fmt.Errorf("want a whole number from 1 to %d", MaxMinReady)
	}
	return n, nil
}
