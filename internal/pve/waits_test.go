package pve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/transport"
)

// node is a scripted node whose tasks end at their times. Each request takes 20 ms. Time is the test's bubble's.
type node struct {
	mu     sync.Mutex
	begin  time.Time
	ends   map[UPID]time.Duration // after begin
	exits  map[UPID]string        // "" is OK
	stale  bool                   // the listing goes on saying that all run
	broken bool                   // the listing cannot be had
	asked  map[string]int         // "listing" or a UPID
}

func newNode() *node {
	return &node{begin: time.Now(), ends: map[UPID]time.Duration{}, exits: map[UPID]string{}, asked: map[string]int{}}
}

// client is one of the node's.
func (n *node) client(t *testing.T) *Client {
	t.Helper()
	c := newClient(t, Config{Endpoint: "https://pve", APIToken: testToken})
	c.send = n.answer
	return c
}

// task starts a task that ends after d.
func (n *node) task(typ string, id int, d time.Duration) UPID {
	n.mu.Lock()
	defer n.mu.Unlock()
	upid := UPID(fmt.Sprintf("UPID:pve1:%08X:%08X:%08X:%s:%d:terraform@pve!prov:", id, id, time.Now().Unix(), typ, id))
	n.ends[upid] = time.Since(n.begin) + d
	return upid
}

func (n *node) status(upid UPID) (exit string, running bool) {
	exit = n.exits[upid]
	if exit == "" {
		exit = "OK"
	}
	return exit, time.Since(n.begin) < n.ends[upid]
}

func (n *node) answer(ctx context.Context, r *transport.Request) (transport.Answer, error) {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
		return transport.Answer{}, &Error{Op: r.Op, Err: ctx.Err()}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	reply := func(data string) (transport.Answer, error) {
		return transport.Answer{Data: []byte(data)}, nil
	}
	if strings.HasSuffix(r.Path, "/log") {
		return reply(`[{"n":1,"t":"TASK ERROR: it broke"}]`)
	}
	if upid, ok := strings.CutPrefix(strings.TrimSuffix(r.Path, "/status"), "/nodes/pve1/tasks/"); ok {
		n.asked[upid]++
		if exit, running := n.status(UPID(upid)); !running {
			return reply(fmt.Sprintf(`{"status":"stopped","exitstatus":%q}`, exit))
		}
		return reply(`{"status":"running"}`)
	}
	n.asked["listing"]++
	if n.broken {
		return transport.Answer{}, &Error{Op: r.Op, Kind: Unavailable, Message: "No route to host"}
	}
	var entries []string
	for upid := range n.ends {
		status, running := n.status(upid)
		if running || n.stale {
			status = "RUNNING"
		}
		entries = append(entries, fmt.Sprintf(`{"upid":%q,"status":%q}`, upid, status))
	}
	return reply("[" + strings.Join(entries, ",") + "]")
}

// looks is how many requests there were, of either kind.
func (n *node) looks() (listings, own int) {
	for what, times := range n.asked {
		if what == "listing" {
			listings += times
		} else {
			own += times
		}
	}
	return listings, own
}

// TestWaitLearnsHowLongTasksTake: the first task of a type is looked at often, later ones when they have mostly
// ended, and each is noticed soon after its end.
func TestWaitLearnsHowLongTasksTake(t *testing.T) {
	for _, c := range []struct {
		takes       time.Duration
		first, each int // looks at most
	}{{200 * time.Millisecond, 2, 2}, {1500 * time.Millisecond, 6, 2}, {20 * time.Second, 16, 16}} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode()
			client := n.client(t)
			for i := range 20 {
				upid := n.task("qmstart", 100+i, c.takes)
				begin := time.Now()
				if _, err := client.Tasks().Wait(t.Context(), upid); err != nil {
					t.Fatal(err)
				}
				late := time.Since(begin) - c.takes
				most := c.first
				if i > 3 {
					most = c.each
				}
				if got := n.asked[string(upid)]; got > most {
					t.Errorf("task %d of %s: %d looks, want at most %d", i, c.takes, got, most)
				}
				if late > max(c.takes/3, 200*time.Millisecond) {
					t.Errorf("task %d of %s was noticed %s late", i, c.takes, late)
				}
			}
		})
	}
}

// waitAll lets one after the other start and waits for all of them.
func waitAll(t *testing.T, n *node, c *Client, tasks int, takes time.Duration) (latest time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range tasks {
		group.Go(func() {
			time.Sleep(time.Duration(i) * 17 * time.Millisecond)
			begin := time.Now()
			_, err := c.Tasks().Wait(t.Context(), n.task("qmcreate", 100+i, takes))
			mu.Lock()
			defer mu.Unlock()
			latest = max(latest, time.Since(begin)-takes)
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	return latest
}

// nobodyWaits fails a test that leaves a wait behind.
func nobodyWaits(t *testing.T, c *Client) {
	t.Helper()
	c.waits.mu.Lock()
	defer c.waits.mu.Unlock()
	if left := len(c.waits.nodes["pve1"].tasks); left != 0 {
		t.Errorf("%d are still waited for", left)
	}
}

// TestManyWaitsShareAListing: ten tasks at a time cost fewer requests than one each.
func TestManyWaitsShareAListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		c := n.client(t)
		latest := waitAll(t, n, c, 10, 300*time.Millisecond)
		nobodyWaits(t, c)
		listings, own := n.looks()
		if listings+own > 9 {
			t.Errorf("%d listings and %d looks at single tasks", listings, own)
		}
		if latest > 300*time.Millisecond {
			t.Errorf("noticed %s late", latest)
		}
	})
}

// TestLooksTogetherTeachNothingWrong: that a look was late, since it was taken together with others, does not make
// the next ones later.
func TestLooksTogetherTeachNothingWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		c := n.client(t)
		for round := range 20 {
			if latest := waitAll(t, n, c, 10, 200*time.Millisecond); latest > 400*time.Millisecond {
				t.Errorf("round %d: noticed %s late", round, latest)
			}
		}
	})
}

// TestListingThatLags: a task whose process has ended is noticed although the listing says that it runs.
func TestListingThatLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.stale = true
		if latest := waitAll(t, n, n.client(t), 10, 300*time.Millisecond); latest > time.Second {
			t.Errorf("noticed %s late", latest)
		}
	})
}

// TestListingThatFails: each wait asks for its own task.
func TestListingThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.broken = true
		if latest := waitAll(t, n, n.client(t), 10, 300*time.Millisecond); latest > 300*time.Millisecond {
			t.Errorf("noticed %s late", latest)
		}
		if listings, _ := n.looks(); listings > 8 {
			t.Errorf("%d listings were tried", listings)
		}
	})
}

// TestFailureAmongMany: the listing's words about a failure are not enough; the task's own words are told.
func TestFailureAmongMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		c := n.client(t)
		failing := n.task("qmstart", 99, 300*time.Millisecond)
		n.exits[failing] = "it broke"
		var group sync.WaitGroup
		group.Go(func() {
			_, err := c.Tasks().Wait(t.Context(), failing)
			var task *TaskError
			if !errors.As(err, &task) || task.ExitStatus != "it broke" || len(task.Log) != 1 {
				t.Errorf("%v", err)
			}
		})
		waitAll(t, n, c, 5, 300*time.Millisecond)
		group.Wait()
		nobodyWaits(t, c)
	})
}

// TestWaitAmongManyEndsWithItsContext: a caller that stops waiting, also in the middle of a listing, does not end the
// wait of the others.
func TestWaitAmongManyEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		c := n.client(t)
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(100+20*i)*time.Millisecond)
				defer cancel()
				if _, err := c.Tasks().Wait(ctx, n.task("qmclone", 300+i, time.Hour)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
			})
		}
		group.Go(func() {
			begin := time.Now()
			if _, err := c.Tasks().Wait(t.Context(), n.task("qmclone", 200, time.Second)); err != nil {
				t.Error(err)
			}
			if late := time.Since(begin) - time.Second; late > 500*time.Millisecond {
				t.Errorf("noticed %s late", late)
			}
		})
		group.Wait()
		nobodyWaits(t, c)
	})
}

// TestOldTaskIsLookedAtOnce: one that has run for long, or ended, when the wait begins.
func TestOldTaskIsLookedAtOnce(t *testing.T) {
	s := taskServer(t, 0, "OK", "")
	c := s.client(t)
	if _, err := c.Cluster().Resources(t.Context()); err == nil { // learns the server's clock, whatever the answer
		t.Fatal("the task's status is taken for a listing")
	}
	old := UPID(fmt.Sprintf("UPID:pve1:00005720:00058E49:%08X:qmclone:100:root@pam!tf:", c.ServerTime().Add(-time.Minute).Unix()))
	if _, err := c.Tasks().Wait(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for _, pause := range s.clock.sleeps {
		if pause > 0 {
			t.Errorf("waited %s first", pause)
		}
	}
}
