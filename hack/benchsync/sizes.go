package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// sizes are those of a world and of what is done with it.
type sizes struct {
	clusters  int           // members, near among them
	services  int           // that each of the others exports
	endpoints int           // of each of these, at most 100
	sharing   int           // clusters that export half of their services under the same names
	rate      int           // changes a second
	time      time.Duration // for how long
	rolled    int           // services that get other endpoints at once
	idle      time.Duration // for how long is counted while nothing happens

	communities []int // members of each community, in one run after the other; 0: there are none
}

// sizesFrom reads the sizes that an environment gives. The others stay.
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
