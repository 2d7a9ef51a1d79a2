package topology

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Share is the part of a cluster's ready endpoints of a service that its export lets be used as usual. The others are spare (A80 of
// docs/spec/answers.md). A nil Share is all of them.
type Share struct {
	Percent int
	// last are the highest hashes within the share, of IPv4 addresses (true) and of IPv6 ones.
	last map[bool]uint64
}

// NewShare returns a share of the endpoints with these addresses. An address may occur more than once.
func NewShare(percent int, ready []netip.Addr) *Share {
	s, hashes := &Share{percent, map[bool]uint64{}}, map[bool][]uint64{}
	for _, addr := range ready {
		hashes[addr.Is4()] = append(hashes[addr.Is4()], hash(addr))
	}
	for is4, all := range hashes {
		slices.Sort(all)
		all = slices.Compact(all)
		if within := (len(all)*percent + 99) / 100; within > 0 {
			s.last[is4] = all[within-1]
		}
	}
	return s
}

// Spare reports whether an endpoint is beyond the share. An address that stands for the whole Service is only if the share is 0.
func (s *Share) Spare(addr netip.Addr, service bool) bool {
	switch {
	case s == nil:
		return false
	case s.Percent == 0 || service:
		return s.Percent == 0
	}
	return hash(addr) > s.last[addr.Is4()]
}

// hash orders the endpoints of a cluster in the same way for every importer and DNS server, of whatever version, and whatever their nodes. So it must
// never change.
func hash(addr netip.Addr) uint64 {
	sum := sha256.Sum256(addr.AsSlice())
	return binary.BigEndian.Uint64(sum[:])
}

// ParseShare parses the per cent that an export states.
func ParseShare(s string) (int, error) {
	percent, err := strconv.Atoi(s)
	if err != nil || percent < 0 || percent > 100 {
		return 0, errors.New("want a whole number from 0 to 100, the per cent of ready endpoints that are used as usual")
	}
	return percent, nil
}

// ParseShares parses the shares of clusters, such as "beijing=25 shanghai=0".
func ParseShares(s string) (map[string]int, error) {
	shares := map[string]int{}
	for word := range strings.FieldsSeq(s) {
		cluster, text, _ := strings.Cut(word, "=")
		percent, err := ParseShare(text)
		if err != nil {
			return nil, errors.New("want CLUSTER=PERCENT, separated by blanks")
		}
		shares[cluster] = percent
	}
	return shares, nil
}

// FormatShares formats shares for ParseShares.
func FormatShares(shares map[string]int) string {
	var words []string
	for _, cluster := range slices.Sorted(maps.Keys(shares)) {
		words = append(words, fmt.Sprintf("%s=%d", cluster, shares[cluster]))
	}
	return strings.Join(words, " ")
}
