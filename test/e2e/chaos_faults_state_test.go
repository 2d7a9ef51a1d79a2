package e2e

import "errors"

var errNotYet = errors.New("it isn't asked again yet")

// chaosQuota is how many bytes each etcd holds.
const chaosQuota = 32 << 20

// stateFaults are what happens to what is stored.
var stateFaults = []fault{}
