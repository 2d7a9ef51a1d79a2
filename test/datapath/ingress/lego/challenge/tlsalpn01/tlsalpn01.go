package tlsalpn01

import (
	"errors"
	"time"
)

const ACMETLS1Protocol = "acme-tls/1"

type ChallengeOption struct{}

func SetDelay(time.Duration) (none ChallengeOption) { return }

func ChallengeBlocks(string, string) (cert, key []byte, err error) {
	return nil, nil, errors.ErrUnsupported
}
