package index

import "fmt"

// Dialect is what the names below a zone mean.
type Dialect uint8

const (
	// MCS is the multi-cluster DNS specification of KEP-1645.
	MCS Dialect = iota
	// Global is FabDNS's: a label in front of a service's name selects one cluster.
	Global
	dialects
)

var dialectNames = [...]string{MCS: "mcs", Global: "global"}

// String returns the name used in the Corefile.
func (d Dialect) String() string { return dialectNames[d] }

// ParseDialect parses a dialect as written in the Corefile: global or mcs.
func ParseDialect(s string) (Dialect, error) {
	for d := range dialects {
		if s == d.String() {
			return d, nil
		}
	}
	return MCS, fmt.Errorf("unknown dialect %q: want global or mcs", s)
}

// MarshalText implements encoding.TextMarshaler.
func (d Dialect) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Dialect) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDialect(string(text))
	return err
}
