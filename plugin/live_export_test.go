package clusterset

import "time"

// The tests wait for these intervals to pass. They are shortened before any source runs, to avoid a data race.
func init() {
	absentPoll = 300 * time.Millisecond
	retryMax = time.Second
	rescan = 500 * time.Millisecond
}
