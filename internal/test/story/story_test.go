package story_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// usualStories is how many stories a run of all tests plays, wholeStories how many a run of every row does. In
// manyStories each act of a third party has an effect.
const (
	usualStories = 50
	manyStories  = 600
	wholeStories = 4000
)

// TestStory plays stories, each drawn by its seed. STORY_SEED=n plays that one, with -v each command lists its writes;
// STORIES=n plays n of them, and STORIES=m-n those from m to n.
func TestStory(t *testing.T) {
	t.Parallel()
	first, last := seeds(t)
	all := &tally{counts: map[string]int{}}
	t.Run("stories", func(t *testing.T) {
		for seed := first; seed <= last; seed++ {
			t.Run(fmt.Sprint("STORY_SEED=", seed), func(t *testing.T) {
				t.Parallel()
				s := newStory(t, seed)
				s.play()
				all.add(s)
			})
		}
	})
	all.print(t)
	if last-first+1 >= usualStories && !t.Failed() {
		few := last-first+1 < manyStories // each story has two acts of third parties at most
		for _, kind := range kinds() {
			if all.counts[kind] == 0 && !(few && strings.HasPrefix(kind, "by hand  ")) {
				t.Errorf("no story has an effective act of kind %q", kind)
			}
		}
	}
}

// seeds are the first and the last seed to play.
func seeds(t *testing.T) (first, last uint64) {
	t.Helper()
	number := func(text string) uint64 {
		n, err := strconv.ParseUint(text, 10, 64)
		rig.Must(t, err)
		return n
	}
	if text := os.Getenv("STORY_SEED"); text != "" {
		return number(text), number(text)
	}
	text := os.Getenv("STORIES")
	switch from, to, isRange := strings.Cut(text, "-"); {
	case isRange:
		return number(from), number(to)
	case text != "":
		return 1, number(text)
	}
	return 1, uint64(share.Count(usualStories, wholeStories))
}

// kinds are the acts that must have had an effect once: a check that cannot fail is none.
func kinds() (all []string) {
	for _, c := range commands() {
		all = append(all, "command  "+c.name)
	}
	for _, e := range edits() {
		all = append(all, "edit     "+e.name)
	}
	for _, k := range troubles() {
		all = append(all, "trouble  "+k.name)
	}
	for _, h := range hands() {
		all = append(all, "by hand  "+h.name)
	}
	for _, m := range []string{beforeCommand, afterPlan, amidRequests} {
		all = append(all, "moment   "+m)
	}
	return all
}

// tally adds up what stories have done.
type tally struct {
	mu      sync.Mutex
	stories int
	counts  map[string]int
}

func (c *tally) add(s *story) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stories++
	for kind, n := range s.counts {
		c.counts[kind] += n
	}
}

func (c *tally) print(t *testing.T) {
	t.Helper()
	sum := func(prefix string) (n int) {
		for kind, count := range c.counts {
			if strings.HasPrefix(kind, prefix) {
				n += count
			}
		}
		return n
	}
	for _, kind := range slices.Sorted(maps.Keys(c.counts)) {
		t.Logf("%6d %s", c.counts[kind], kind)
	}
	t.Logf("%d stories, %d commands, %d acts of third parties that had an effect", c.stories, sum("command  "),
		sum("by hand  "))
}

// story is one story under way.
type story struct {
	*testing.T
	seed   uint64
	rng    *rand.Rand
	w      *rig.World
	id     rig.Identity
	user   string // the owner of the provider's tasks
	place  place
	dirs   []*workdir
	lines  []string // what has been done, and what came of it
	said   string   // every message so far
	counts map[string]int
	wrong  []string
	ledger *ledger
	guide  *guide
	// script are the acts of third parties to come, by the number of the command at which they come.
	script map[int]cue
}

// play plays the story and prints it where something is wrong.
func (s *story) play() {
	defer func() {
		if r := recover(); r != nil {
			s.violated("panic: %v", r)
		}
		if len(s.wrong) > 0 {
			s.Errorf("STORY_SEED=%d\n%s\nVIOLATION:\n  %s", s.seed, strings.Join(s.lines, "\n"), strings.Join(s.wrong, "\n  "))
		} else if alone() {
			s.Logf("%s", strings.Join(s.lines, "\n"))
		}
	}()
	s.open()
	for n := range 4 + s.rng.IntN(7) {
		if len(s.wrong) > 0 {
			return
		}
		s.act(n)
	}
	if len(s.wrong) == 0 {
		s.end()
	}
}

// alone tells whether this story is played alone and in full.
func alone() bool { return testing.Verbose() && os.Getenv("STORY_SEED") != "" }

// showRequests lists the writes of a command where the story is played alone, and the acts of third parties among
// them.
func (s *story) showRequests(a *turn) {
	if !alone() {
		return
	}
	acts := slices.Clone(a.chain)
	next := func(seq int) {
		for ; len(acts) > 0 && acts[0].seq <= seq; acts = acts[1:] {
			s.tell("%6d third party: %s, VM %d", acts[0].seq, acts[0].act, acts[0].about)
		}
	}
	for _, op := range a.ops {
		next(op.Seq)
		if op.Method != http.MethodGet && op.Path != "/access/ticket" {
			s.tell("%6d %s %s %v: %d", op.Seq, op.Method, op.Path, op.Params, op.Status)
		}
	}
	next(math.MaxInt)
}

func (s *story) note(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%3d. ", len(s.lines)+1)+fmt.Sprintf(format, args...))
}

// tell adds to the last line what came of it.
func (s *story) tell(format string, args ...any) {
	text := strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n", "\n       | ")
	s.lines[len(s.lines)-1] += "\n       | " + text
}

func (s *story) violated(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func (s *story) count(kind, name string) { s.counts[fmt.Sprintf("%-8s %s", kind, name)]++ }

// odds is true once in n times.
func (s *story) odds(n int) bool { return s.rng.IntN(n) == 0 }

// pick draws an element.
func pick[V any](s *story, list []V) V { return list[s.rng.IntN(len(list))] }
