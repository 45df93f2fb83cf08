package lab

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Run plays a case. At its end everything is destroyed and nothing is left. Run removes the leftovers of a case that fails, so that
// the next cases have their range.
func (c *Cluster) Run(t *testing.T, tf Terraform, k Case) {
	t.Helper()
	if why := c.Lacks(k.Needs...); why != "" {
		t.Skip(why)
	}
	r := &runner{T: t, c: c, tf: tf, vars: map[string]string{}}
	defer r.sweep()
	for i, step := range k.Steps {
		r.n = i + 1
		r.step(t.Context(), step)
		if t.Failed() {
			return
		}
	}
	r.n = len(k.Steps) + 1
	r.want(tf.Destroy(t.Context()), Step{})
}

// runner is a case under way.
type runner struct {
	*testing.T
	c  *Cluster
	tf Terraform
	n  int // the step, from one

	config string                       // as it was filled in last
	vars   map[string]string            // the values of its variables
	known  map[string]map[string]string // the attributes of resources, asked for since the last act
	set    map[string]string            // the attributes of the resource that was forgotten last
}

func (r *runner) errorf(format string, args ...any) {
	r.Helper()
	r.Errorf("step %d: %s", r.n, fmt.Sprintf(format, args...))
}

// sweep wants nothing to be left, and removes any leftovers.
func (r *runner) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	leaks, err := r.c.Leaks(ctx)
	if err != nil {
		r.errorf("look for leftovers: %v", err)
		return
	}
	if len(leaks) == 0 {
		return
	}
	r.errorf("left on the cluster: %s", strings.Join(leaks, ", "))
	if removed, err := r.c.Sweep(ctx); err != nil {
		r.errorf("sweep %v: %v", removed, err)
	}
}

func (r *runner) step(ctx context.Context, step Step) {
	r.Helper()
	if err := r.prepare(ctx, step); err != nil {
		r.errorf("before it: %v", err)
		return
	}
	before := ""
	if step.Power != AnyPower {
		before = r.process(ctx)
	}
	if r.act(ctx, step); r.Failed() {
		return
	}
	r.known = map[string]map[string]string{}
	r.state(ctx, step.State)
	for name, attribute := range step.Keep {
		r.vars[name] = r.attribute(ctx, attribute)
	}
	for _, look := range step.Looks {
		r.look(ctx, look)
	}
	if step.Power == AnyPower {
		return
	}
	after := r.process(ctx)
	if before == "" || after == "" || (before == after) != (step.Power == Steady) {
		r.errorf("want the VM to be %s, its process was %q and is %q", step.Power, before, after)
	}
}

// prepare plays the acts of others before a step, and writes its configuration.
func (r *runner) prepare(ctx context.Context, step Step) error {
	for _, q := range step.Before {
		params := map[string]string{}
		for k, v := range q.Params {
			params[k] = r.c.fill(v)
		}
		if err := r.c.client.do(ctx, q.AsRoot, q.Method, r.path(q.Path), params); err != nil {
			return err
		}
	}
	for name, value := range step.Set {
		r.vars[name] = r.c.fill(value)
	}
	switch {
	case step.Act == Generate: // the resource's block is about to be written
		r.config = emptyProvider
	case step.Config != "":
		r.config = emptyProvider + "\n" + r.c.fill(withoutProvider(step.Config))
	case step.Set == nil:
		return nil
	}
	if mark := placeholder.FindString(r.config); mark != "" {
		return fmt.Errorf("the cluster has no name for %s", mark)
	}
	return r.tf.Configure(r.config, r.vars)
}

func withoutProvider(config string) string {
	return regexp.MustCompile(`(?m)^provider "proxmox" \{\}.*$`).ReplaceAllString(config, "")
}

func (r *runner) act(ctx context.Context, step Step) {
	r.Helper()
	switch step.Act {
	case Apply:
		if r.want(r.tf.Apply(ctx), step) {
			r.empty(ctx)
		}
	case Replace:
		if r.want(r.tf.Replace(ctx, step.Address), step) {
			r.empty(ctx)
		}
	case Plan:
		if out := r.tf.Plan(ctx); r.want(out, step) && !out.Changes {
			r.errorf("the plan is empty")
		}
	case Destroy:
		r.want(r.tf.Destroy(ctx), step)
	case Forget:
		var err error
		if r.set, err = r.tf.Attributes(ctx, step.Address); err != nil {
			r.errorf("%v", err)
		}
		r.want(r.tf.Forget(ctx, step.Address), step)
	case Import:
		if r.want(r.tf.Import(ctx, step.Address, r.c.fill(step.ID)), step) {
			r.knowsAll(ctx, step.Address)
		}
	case Generate:
		if r.want(r.tf.Generate(ctx, step.Address, r.c.fill(step.ID)), step) {
			r.empty(ctx)
			r.knowsAll(ctx, step.Address)
		}
	case Stop:
		out := r.tf.Interrupt(ctx, r.atWork)
		if out.OK {
			r.Logf("step %d: it was over before the interrupt", r.n)
		} else {
			r.want(out, step)
		}
		r.accounted(ctx, step.Address)
	}
}

// want compares the messages with the step; true: it has succeeded, as it should.
func (r *runner) want(out Outcome, step Step) bool {
	r.Helper()
	pattern := step.Says
	if step.Fails != "" {
		pattern = step.Fails
	}
	if out.OK != (step.Fails == "") {
		r.errorf("%s: want success %t, it said: %s", step.Act, step.Fails == "", out.Text)
		return false
	}
	if !r.matches(pattern, out.Text) {
		r.errorf("%s: want %q, it said: %s", step.Act, r.c.fill(pattern), out.Text)
	}
	return out.OK && !r.Failed()
}

func (r *runner) matches(pattern, text string) bool {
	return regexp.MustCompile(r.c.fill(pattern)).MatchString(text)
}

// empty wants a plan with nothing to do.
func (r *runner) empty(ctx context.Context) {
	r.Helper()
	if out := r.tf.Plan(ctx); !out.OK || out.Changes {
		r.errorf("the plan after it is not empty: %s", out.Text)
	}
}

// knowsAll holds an import against what was forgotten before it: it knows the same, less what only a configuration knows.
func (r *runner) knowsAll(ctx context.Context, address string) {
	r.Helper()
	if r.set == nil {
		return
	}
	got, err := r.tf.Attributes(ctx, address)
	if err != nil {
		r.errorf("%v", err)
		return
	}
	var wrong []string
	for name, want := range r.set {
		root, _, _ := strings.Cut(name, ".")
		// vmgenid is root's to set, and so stays null in the state of an import, from which a configuration may be generated
		if !slices.Contains([]string{"on_destroy", "timeouts", "vmgenid"}, root) && got[name] != want {
			wrong = append(wrong, fmt.Sprintf("%s is %q, was %q", name, got[name], want))
		}
	}
	if slices.Sort(wrong); len(r.set) < 30 || len(wrong) > 0 {
		r.errorf("of %d attributes the import has found others: %s", len(r.set), strings.Join(wrong, "; "))
	}
}

// path completes the path of a guest.
func (r *runner) path(pattern string) string {
	path := r.c.fill(pattern)
	if !strings.HasPrefix(path, "/") {
		path = "/nodes/" + r.c.Node + "/qemu/" + path
	}
	return path
}

func (r *runner) look(ctx context.Context, look Look) {
	r.Helper()
	got, err := r.ask(ctx, look)
	if err != nil {
		r.errorf("%v", err)
		return
	}
	if want := r.c.fill(look.Want); !regexp.MustCompile("^(?:" + want + ")$").MatchString(got) {
		r.errorf("%s %s on the server: want %q, got %q", r.c.fill(look.Path), look.Field, want, got)
	}
}

func (r *runner) ask(ctx context.Context, look Look) (string, error) {
	a, err := r.c.client.ask(ctx, http.MethodGet, r.path(look.Path), nil)
	if err != nil || a.Status == http.StatusInternalServerError { // PVE's answer for an object that does not exist
		return "", err
	}
	if a.Status != http.StatusOK {
		return "", fmt.Errorf("GET %s: %d %s", r.path(look.Path), a.Status, a.Reason)
	}
	if look.Field == "" {
		return compact(a.Data), nil
	}
	fields, ok := a.Data.(map[string]any)
	if !ok {
		return "", fmt.Errorf("GET %s: no object: %s", r.path(look.Path), compact(a.Data))
	}
	return text(fields[look.Field]), nil
}

// process is the process of VM <vmid+0>; "" if it does not run.
func (r *runner) process(ctx context.Context) string {
	pid, err := r.ask(ctx, Look{Path: "<vmid+0>/status/current", Field: "pid"})
	if err != nil {
		r.errorf("%v", err)
	}
	return pid
}

func (r *runner) state(ctx context.Context, want map[string]string) {
	r.Helper()
	for name, pattern := range want {
		if got := r.attribute(ctx, name); !r.matches("^(?:"+pattern+")$", got) {
			r.errorf("%s is %q, want %q", name, got, r.c.fill(pattern))
		}
	}
}

// attribute is the value of one in state: "proxmox_vm.acc disks.scsi0.size".
func (r *runner) attribute(ctx context.Context, name string) string {
	address, path, _ := strings.Cut(name, " ")
	if r.known[address] == nil {
		attributes, err := r.tf.Attributes(ctx, address)
		if err != nil {
			r.errorf("%v", err)
			return ""
		}
		r.known[address] = attributes
	}
	return r.known[address][path]
}

// atWork returns as soon as a task for an id of the range runs.
func (r *runner) atWork(ctx context.Context) error {
	for {
		tasks, err := r.c.tasks(ctx, []string{r.c.Node})
		if err != nil || len(tasks) > 0 {
			return err
		}
		if err := r.c.client.sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// accounted wants the leftover of an interrupt to be in state, and the resource in state to exist.
func (r *runner) accounted(ctx context.Context, address string) {
	r.Helper()
	leaks, err := r.c.Leaks(ctx)
	if err != nil {
		r.errorf("%v", err)
		return
	}
	if _, err := r.tf.Attributes(ctx, address); (err == nil) != (len(leaks) > 0) {
		r.errorf("in state: %v; on the server: %v", err == nil, leaks)
	}
}
