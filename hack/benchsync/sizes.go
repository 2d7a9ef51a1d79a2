package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// sizes describe a world and the changes made to it.
type sizes struct {
	clusters  int           // members, including near
	services  int           // exported by each of the others
	endpoints int           // of each service, at most 100
	sharing   int           // number of clusters that export half of their services under the same names
	rate      int           // changes a second
	time      time.Duration // how long changes are made at that rate
	rolled    int           // services whose endpoints are all replaced at once
	idle      time.Duration // how long writes or traffic are counted while nothing changes

	communities []int // members of each community, one run for each number; 0: no communities
}

// sizesFrom overrides the sizes that are set in the environment.
func sizesFrom(getenv func(string) string, s sizes) (sizes, error) {
	var errs []error
	for name, to := range map[string]*int{
		"CLUSTERS": &s.clusters, "SERVICES": &s.services, "ENDPOINTS": &s.endpoints, "SHARING": &s.sharing, "RATE": &s.rate, "ROLLED": &s.rolled,
	} {
		if v := getenv(name); v != "" {
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 {
				errs = append(errs, fmt.Errorf("%s=%s: want a number from 1", name, v))
			}
			*to = n
		}
	}
	for name, to := range map[string]*time.Duration{"TIME": &s.time, "IDLE": &s.idle} {
		if v := getenv(name); v != "" {
			d, err := time.ParseDuration(v)
			if err != nil || d < time.Second {
				errs = append(errs, fmt.Errorf("%s=%s: want a duration from 1s, such as 5m", name, v))
			}
			*to = d
		}
	}
	if s.clusters < 2 || s.services < 2 || s.endpoints > 100 {
		errs = append(errs, errors.New("want two clusters and two services of each, at least, and a hundred endpoints of each, at most"))
	}
	return s, errors.Join(errs...)
}
