// The post-quantum half of a TLS handshake costs more than most requests to a cluster in memory, and protects nothing here.
//
//go:debug tlsmlkem=0
package plan_test

import (
	"flag"
	"runtime"
	"sync"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestMain adds up the power-offs of all tests.
func TestMain(m *testing.M) { rig.Main(m) }

// play plays the rows of a law, as many at once as there are processors: open makes what one after the other is played
// in. It returns the outcomes of those that are drawn, in no order. With -failfast the first failure ends it.
func play[R, B, O any](t *testing.T, rows []R, drawn func(number int, row R) bool, open func() B,
	try func(bench B, number int, row R) O) (outcomes []O) {
	t.Helper()
	var mu sync.Mutex
	next := 0
	stops := flag.Lookup("test.failfast").Value.String() == "true"
	take := func() (number int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		for ; next < len(rows) && !(stops && t.Failed()); next++ {
			if drawn(next, rows[next]) {
				next++
				return next - 1, true
			}
		}
		return 0, false
	}
	var workers sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		bench := open()
		workers.Go(func() {
			for number, ok := take(); ok; number, ok = take() {
				outcome := try(bench, number, rows[number])
				mu.Lock()
				outcomes = append(outcomes, outcome)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return outcomes
}

// count is how many outcomes are like one.
func count[O comparable](outcomes []O, like O) (n int) {
	for _, outcome := range outcomes {
		if outcome == like {
			n++
		}
	}
	return n
}
