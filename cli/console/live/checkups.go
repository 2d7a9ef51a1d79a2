package live

import (
	"context"
	"time"

	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/cli/doctor"
)

const (
	// checkUpEvery is the time between two check-ups of a source, and checkUpAgain that after one that didn't reach it.
	checkUpEvery, checkUpAgain = 5 * time.Minute, time.Minute
	// checkUpPatience bounds one, and maxCheckUps how many sources are checked at once.
	checkUpPatience = 30 * time.Second
	maxCheckUps     = 4
)

// checkUps asks a source what only the doctor wants to know, until the context is done.
func (s source) checkUps(ctx context.Context, ask func(context.Context) *doctor.Facts) {
	for {
		pause := checkUpAgain
		if s.checkUp(ctx, ask) {
			pause = checkUpEvery
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// checkUp reports whether the source could be reached. If it can't be, what it said before is kept.
func (s source) checkUp(ctx context.Context, ask func(context.Context) *doctor.Facts) bool {
	select {
	case s.checking <- struct{}{}:
		defer func() { <-s.checking }()
	case <-ctx.Done():
		return false
	}
	within, cancel := context.WithTimeout(ctx, checkUpPatience)
	defer cancel()
	facts := ask(within)
	for _, server := range []*doctor.Server{facts.Cluster, facts.Hub} {
		if server != nil && server.Err != nil {
			return false
		}
	}
	if ctx.Err() == nil {
		s.console.ChangeSource(s.number, func(is *console.Source) { is.Asked = facts })
	}
	return true
}
