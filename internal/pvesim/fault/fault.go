// Package fault decides which operation of the simulator goes wrong, when and how.
//
// A Rule names an operation by what an outsider can see of it (its number, method, path template, VMID) and a Phase.
// The package knows nothing of HTTP or of tasks: the caller that runs an operation asks Set.Strike and reports back
// whether the fault had an effect, because a test case counts only then.
package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Phase is the moment at which an operation fails.
type Phase string

// The phases. Before and After concern the request, the others the task that it starts.
const (
	Before   Phase = "before"    // refused, nothing happened
	After    Phase = "after"     // done, but the connection is cut before the answer
	Task     Phase = "task"      // accepted; the task fails, with PVE's own clean-up
	KillTask Phase = "kill_task" // the worker dies without clean-up; the config lock and the volumes stay
	Partial  Phase = "partial"   // the task fails, and PVE's clean-up frees nothing
	Rival    Phase = "rival"     // after PVE cleaned up, a third party's create takes the same id at once
	// FirewallLock fails a clone where it waits for the lock of its firewall file: after the configuration is written,
	// outside of what cleans up. Other tasks it does not touch.
	FirewallLock Phase = "firewall_lock"
	// NoQuorum fails a create or clone where it writes the finished configuration, and lets no configuration be removed:
	// the cluster has no quorum then, and has it again when the task is over.
	NoQuorum Phase = "no_quorum"
	Offline  Phase = "offline" // the node crashes in the middle of the task, or before the answer if there is none
)

// Phases are all of them.
func Phases() []Phase {
	return []Phase{Before, After, Task, KillTask, Partial, FirewallLock, NoQuorum, Rival, Offline}
}

// Match selects operations. Fields that are zero match everything; the others are ANDed.
type Match struct {
	Seq    int    `json:"seq,omitempty"`
	Method string `json:"method,omitempty"` // HTTP method, or "SSH"
	Path   string `json:"path,omitempty"`   // the API's template, or the SSH command's words ("qm unlock")
	VMID   int    `json:"vmid,omitempty"`
	// Nth counts, from 1, the operations that match the other fields since the rule was set.
	Nth int `json:"nth,omitempty"`
}

// Rule is one fault to come.
type Rule struct {
	Match Match `json:"match"`
	Phase Phase `json:"phase"`
	// Times is how often it fires; 0 means once, a negative value always.
	Times   int    `json:"times,omitempty"`
	Status  int    `json:"status,omitempty"`   // of the refusal in phase before; 0 means 500; 595 and more: no answer
	Reason  string `json:"reason,omitempty"`   // reason phrase, or the text the task fails with
	DelayMS int    `json:"delay_ms,omitempty"` // on the cluster's clock, before the fault takes effect
	// phase offline: when the node is back, on the cluster's clock; 0 means never
	AwayMS int `json:"away_ms,omitempty"`
}

// Read reads rules from a JSON document, a list of them, and refuses what they could not mean.
func Read(document []byte) ([]Rule, error) {
	var rules []Rule
	dec := json.NewDecoder(bytes.NewReader(document))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&rules); err != nil {
		return nil, err
	}
	for i, r := range rules {
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
	}
	return rules, nil
}

// Validate refuses rules that could never fire.
func (r Rule) Validate() error {
	if !slices.Contains(Phases(), r.Phase) {
		return fmt.Errorf("phase %q is not one of %v", r.Phase, Phases())
	}
	if r.Status != 0 && (r.Status < 400 || r.Status > 599) {
		return fmt.Errorf("status %d is not an error status (400 to 599)", r.Status)
	}
	if r.AwayMS < 0 || r.AwayMS > 0 && r.Phase != Offline {
		return fmt.Errorf("away_ms is how long the node of phase offline stays away, and not negative")
	}
	if r.DelayMS < 0 || r.Match.Nth < 0 || r.Match.Seq < 0 {
		return fmt.Errorf("delay_ms, nth and seq must not be negative")
	}
	return nil
}

// Operation is what a rule can see of a request or an SSH command.
type Operation struct {
	Seq    int
	Method string
	Path   string
	// VMIDs are the ids that the operation is about: the path's, a clone's newid, a create's own.
	VMIDs []int
}

// Matches reports whether the operation is meant, whatever Nth says.
func (m Match) Matches(op Operation) bool {
	if m.Seq != 0 && m.Seq != op.Seq || m.Method != "" && m.Method != op.Method || m.Path != "" && m.Path != op.Path {
		return false
	}
	if m.VMID == 0 {
		return true
	}
	for _, id := range op.VMIDs {
		if id == m.VMID {
			return true
		}
	}
	return false
}

type armed struct {
	Rule
	seen, fired, effective int
}

func (a *armed) spent() bool {
	times := a.Times
	if times == 0 {
		times = 1
	}
	return times > 0 && a.fired >= times
}

// Set is the list of rules in force. The zero value has none. It is safe for concurrent use.
type Set struct {
	mu        sync.Mutex
	rules     []*armed
	effective int
}

// Put replaces all rules and forgets how many had an effect.
func (s *Set) Put(rules []Rule) error {
	list := make([]*armed, 0, len(rules))
	for i, r := range rules {
		if err := r.Validate(); err != nil {
			return fmt.Errorf("rule %d: %w", i, err)
		}
		list = append(list, &armed{Rule: r})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules, s.effective = list, 0
	return nil
}

// Clear removes all rules.
func (s *Set) Clear() { _ = s.Put(nil) }

// Effective tells how many faults changed an outcome since the rules were put.
func (s *Set) Effective() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effective
}

// Status is a rule with its history.
type Status struct {
	Rule
	Seen      int `json:"seen"`
	Fired     int `json:"fired"`
	Effective int `json:"effective"`
}

// List returns the rules in force.
func (s *Set) List() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Status, 0, len(s.rules))
	for _, a := range s.rules {
		list = append(list, Status{Rule: a.Rule, Seen: a.seen, Fired: a.fired, Effective: a.effective})
	}
	return list
}

// Strikes are the faults that one operation meets, at most one of each kind; nil means none.
type Strikes struct{ Before, After, Task *Strike }

// Strike counts the operation against every rule and returns those that hit it.
func (s *Set) Strike(op Operation) Strikes {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hit Strikes
	for _, a := range s.rules {
		if !a.Match.Matches(op) {
			continue
		}
		a.seen++
		if a.spent() || a.seen < a.Match.Nth {
			continue
		}
		slot := &hit.Task
		switch a.Phase {
		case Before:
			slot = &hit.Before
		case After:
			slot = &hit.After
		}
		if *slot == nil {
			*slot = &Strike{Rule: a.Rule, set: s, from: a}
		}
	}
	return hit
}

// Strike is a rule about to hit an operation.
type Strike struct {
	Rule
	set   *Set
	from  *armed
	fired bool
}

// Delay is how long the fault takes on the cluster's clock.
func (k *Strike) Delay() time.Duration { return time.Duration(k.DelayMS) * time.Millisecond }

// Away is how long the node of phase offline stays away; zero means for good.
func (k *Strike) Away() time.Duration { return time.Duration(k.AwayMS) * time.Millisecond }

// Fired reports whether the strike was taken.
func (k *Strike) Fired() bool {
	k.set.mu.Lock()
	defer k.set.mu.Unlock()
	return k.fired
}

// Fire uses up one of the rule's times. False: another operation used the last one in the meantime.
func (k *Strike) Fire() bool {
	k.set.mu.Lock()
	defer k.set.mu.Unlock()
	if k.fired {
		return true
	}
	if k.from.spent() {
		return false
	}
	k.from.fired++
	k.fired = true
	return true
}

// Took records that the fault changed the outcome.
func (k *Strike) Took() {
	k.set.mu.Lock()
	defer k.set.mu.Unlock()
	k.from.effective++
	k.set.effective++
}

// Text is the reason, or the fallback where the rule gives none.
func (k *Strike) Text(fallback string) string {
	if k.Reason != "" {
		return k.Reason
	}
	return fallback
}
