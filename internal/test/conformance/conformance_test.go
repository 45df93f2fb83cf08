package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// conformanceTables holds what a PVE 8.4.21 answered.
const conformanceTables = "testdata"

// conformanceTable reads one table, one row a line.
func conformanceTable[T any](t *testing.T, name string) []T {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(conformanceTables, name))
	if err != nil {
		t.Fatal(err)
	}
	var rows []T
	for line := range bytes.Lines(raw) {
		var row T
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&row); err != nil {
			t.Fatalf("%s, row %d: %v", name, len(rows), err)
		}
		rows = append(rows, row)
	}
	return rows
}

// exception is a row that the simulator may answer differently, and why.
type exception struct {
	Table  string `json:"table"`
	N      int    `json:"n"`
	Reason string `json:"reason"`
}

// conformance collects the outcome of all rows, by area and by table.
type conformance struct {
	exceptions []exception
	areas      map[string]*areaCount
	tables     map[string]*areaCount
	used       map[int]bool // exceptions that were needed
}

type areaCount struct{ shown, equal, listed, notRun, steps int }

func newConformance(t *testing.T) *conformance {
	return &conformance{
		exceptions: conformanceTable[exception](t, "exceptions.jsonl"), areas: map[string]*areaCount{},
		tables: map[string]*areaCount{}, used: map[int]bool{},
	}
}

func countOf(counts map[string]*areaCount, name string) *areaCount {
	if counts[name] == nil {
		counts[name] = &areaCount{}
	}
	return counts[name]
}

func (c *conformance) area(name string) *areaCount { return countOf(c.areas, name) }

// judge counts a row and fails its test, unless it is equal or listed.
func (c *conformance) judge(t *testing.T, table, area string, n int, diff []string) {
	t.Helper()
	count, file := c.area(area), countOf(c.tables, table)
	count.shown, file.shown = count.shown+1, file.shown+1
	if len(diff) == 0 {
		count.equal, file.equal = count.equal+1, file.equal+1
		return
	}
	for i, e := range c.exceptions {
		if e.Table == table && e.N == n {
			c.used[i] = true
			count.listed, file.listed = count.listed+1, file.listed+1
			t.Logf("listed: %s: %s", e.Reason, strings.Join(diff, "; "))
			return
		}
	}
	for _, d := range diff {
		t.Error(d)
	}
}

// step counts a row that is no request: a change on the node.
func (c *conformance) step(table, area string) {
	c.area(area).steps++
	countOf(c.tables, table).steps++
}

// skip counts a row that this server cannot be asked.
func (c *conformance) skip(t *testing.T, table, area, why string) {
	t.Helper()
	c.area(area).notRun++
	countOf(c.tables, table).notRun++
	t.Skip(why)
}

// maxListed is the share of rows that may be listed as exceptions.
const maxListed = 0.02

// report prints the figures and holds the suite to its own rules, file by file.
func (c *conformance) report(t *testing.T, clock string, real bool) {
	t.Helper()
	var total areaCount
	lines := []string{fmt.Sprintf("%-42s %6s %6s %7s %6s %8s", "area", "shown", "equal", "listed", "steps", "not run")}
	line := func(name string, a areaCount) {
		lines = append(lines, fmt.Sprintf("%-42s %6d %6d %7d %6d %8d", name, a.shown, a.equal, a.listed, a.steps, a.notRun))
	}
	for _, name := range slices.Sorted(maps.Keys(c.areas)) {
		line(name, *c.areas[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.tables)) {
		a := *c.tables[name]
		line("file "+name, a)
		total.shown, total.equal = total.shown+a.shown, total.equal+a.equal
		total.listed, total.notRun, total.steps = total.listed+a.listed, total.notRun+a.notRun, total.steps+a.steps
		if !real && float64(a.listed) > maxListed*float64(a.shown) {
			t.Errorf("%d of %d rows of %s are listed as exceptions, at most %.0f %% may be", a.listed, a.shown, name, 100*maxListed)
		}
	}
	line("all", total)
	t.Logf("conformance with PVE 8.4, %s clock:\n%s", clock, strings.Join(lines, "\n"))
	if real {
		return
	}
	for i, e := range c.exceptions {
		if !c.used[i] && !t.Failed() {
			t.Errorf("row %d of %s is listed as an exception, but agrees: take it off the list", e.N, e.Table)
		}
	}
}

// minEqual is the share of rows of a file that have to be answered as recorded, whatever the clock.
const minEqual = 0.99

// summary prints the figures of both clocks in one table, and the exceptions, and holds each file to its share.
func summary(t *testing.T, clocks []string, outcomes []*conformance) {
	t.Helper()
	lines := []string{fmt.Sprintf("%-14s %-8s %6s %6s %8s %7s %6s %8s", "file", "clock", "shown", "equal", "share", "listed", "steps", "not run")}
	for i, c := range outcomes {
		for _, name := range slices.Sorted(maps.Keys(c.tables)) {
			a := *c.tables[name]
			share := float64(a.equal) / float64(max(1, a.shown))
			lines = append(lines, fmt.Sprintf("%-14s %-8s %6d %6d %7.2f%% %7d %6d %8d", name, clocks[i], a.shown, a.equal, 100*share, a.listed, a.steps, a.notRun))
			if share < minEqual || a.notRun > 0 {
				t.Errorf("%s, %s clock: %d of %d rows are equal, %d were not run", name, clocks[i], a.equal, a.shown, a.notRun)
			}
		}
		if len(c.tables) != 7 {
			t.Errorf("%s clock: %d files", clocks[i], len(c.tables))
		}
	}
	for _, e := range outcomes[0].exceptions {
		lines = append(lines, fmt.Sprintf("exception: row %d of %s: %s", e.N, e.Table, e.Reason))
	}
	t.Logf("conformance with PVE 8.4:\n%s", strings.Join(lines, "\n"))
}

// TestConformance asks what a PVE 8.4.21 was asked and wants its answers: of the simulator, or with TF_ACC and PROXMOX_VE_ENDPOINT set
// of a real cluster, as far as that can be asked without killing workers or changing it from outside. The simulator is asked
// twice: with a clock that stands still between what the tests let happen, and with one that ticks, as every real one does.
func TestConformance(t *testing.T) {
	t.Parallel()
	if rig.OnRealCluster() {
		conformanceCluster(t, newConformance(t))
		return
	}
	clocks, outcomes := []string{"still", "ticking"}, []*conformance{}
	for i, tick := range []time.Duration{0, time.Millisecond} {
		name, c := clocks[i], newConformance(t)
		outcomes = append(outcomes, c)
		t.Run(name, func(t *testing.T) {
			t.Run("calls", func(t *testing.T) { conformanceCalls(t, c, newConformer(t, conformanceWorld(), tick), firstCalls()) })
			t.Run("calls-2", func(t *testing.T) { conformanceCalls(t, c, newConformer(t, secondWorld(), tick), secondCalls()) })
			t.Run("calls-3", func(t *testing.T) { conformanceCalls(t, c, newConformer(t, thirdWorld(), tick).third(), thirdCalls()) })
			t.Run("calls-4", func(t *testing.T) { conformanceCalls(t, c, newConformer(t, fourthWorld(), tick), fourthCalls()) })
			t.Run("values", func(t *testing.T) { conformanceValues(t, c, newConformer(t, conformanceWorld(), tick)) })
			t.Run("running", func(t *testing.T) { conformanceRunning(t, c, newConformer(t, conformanceWorld(), tick)) })
			t.Run("privileges", func(t *testing.T) { conformancePrivileges(t, c, newConformer(t, conformanceWorld(), tick)) })
			c.report(t, name, false)
		})
	}
	summary(t, clocks, outcomes)
}
