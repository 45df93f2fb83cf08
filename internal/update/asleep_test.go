package update

import (
	"bytes"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// TestSleepingUpdateTouchesNothingOfOthers: the machine sleeps for an hour after any answer that an update gets, and
// meanwhile a third party has another VM under the id. Nothing of his is changed, by no request, whether PVE takes a
// digest with it or not.
func TestSleepingUpdateTouchesNothingOfOthers(t *testing.T) {
	all := 0
	for name, alter := range changesAmongThirdParties() {
		t.Run(name, func(t *testing.T) {
			w := amongThirdParties(t)
			if slices.Contains(ofARunningGuest(), name) {
				w.start()
			}
			if name == "force a restart" {
				w.ignoreShutdown()
			}
			base := w.sim.Snapshot()
			r := w.request()
			alter(&r)
			if _, _, err := w.update(r); err != nil {
				t.Fatal(err)
			}
			spots, played := len(w.sim.Ops()), 0
			for n := 1; n < spots; n++ {
				w.again(base, []thirdparty.Act{thirdparty.RestoreHis}, fault.Match{Seq: n + 1})
				var answers atomic.Int64
				w.answered = func() {
					if answers.Add(1) == int64(n) {
						w.clock.ahead.Add(int64(time.Hour))
					}
				}
				_, _, err := w.update(r)
				w.answered = nil
				reports := w.sim.Reports()
				if len(reports) == 0 || !reports[len(reports)-1].Done {
					continue
				}
				played++
				if last := reports[len(reports)-1]; !bytes.Equal(last.Is, w.sim.ThirdParties()) {
					t.Errorf("asleep after answer %d: %v\n%s", n, err, written(w.sim.Ops(), last))
				}
			}
			all += played
		})
	}
	if all < 50 {
		t.Errorf("only %d cases", all)
	}
}
