package acctest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// conformanceTables is where internal/cmd/conformance puts what a PVE 8.4.21 answered.
const conformanceTables = "testdata/conformance"

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

// conformance collects the outcome of all rows, by area.
type conformance struct {
	exceptions []exception
	areas      map[string]*areaCount
	used       map[int]bool // exceptions that were needed
}

type areaCount struct{ shown, equal, listed, notRun int }

func newConformance(t *testing.T) *conformance {
	return &conformance{
		exceptions: conformanceTable[exception](t, "exceptions.jsonl"), areas: map[string]*areaCount{}, used: map[int]bool{},
	}
}

func (c *conformance) area(name string) *areaCount {
	if c.areas[name] == nil {
		c.areas[name] = &areaCount{}
	}
	return c.areas[name]
}

// judge counts a row and fails its test, unless it is equal or listed.
func (c *conformance) judge(t *testing.T, table, area string, n int, diff []string) {
	t.Helper()
	count := c.area(area)
	count.shown++
	if len(diff) == 0 {
		count.equal++
		return
	}
	for i, e := range c.exceptions {
		if e.Table == table && e.N == n {
			c.used[i] = true
			count.listed++
			t.Logf("listed: %s: %s", e.Reason, strings.Join(diff, "; "))
			return
		}
	}
	for _, d := range diff {
		t.Error(d)
	}
}

// skip counts a row that this server cannot be asked.
func (c *conformance) skip(t *testing.T, area, why string) {
	t.Helper()
	c.area(area).notRun++
	t.Skip(why)
}

// maxListed is the share of rows that may be listed as exceptions.
const maxListed = 0.02

// report prints the figures and holds the suite to its own rules.
func (c *conformance) report(t *testing.T, real bool) {
	t.Helper()
	var total areaCount
	lines := []string{fmt.Sprintf("%-42s %6s %6s %7s %8s", "area", "shown", "equal", "listed", "not run")}
	line := func(name string, a areaCount) string {
		return fmt.Sprintf("%-42s %6d %6d %7d %8d", name, a.shown, a.equal, a.listed, a.notRun)
	}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for k := range c.areas {
			if !yield(k) {
				return
			}
		}
	}) {
		a := c.areas[name]
		lines = append(lines, line(name, *a))
		total.shown, total.equal = total.shown+a.shown, total.equal+a.equal
		total.listed, total.notRun = total.listed+a.listed, total.notRun+a.notRun
	}
	lines = append(lines, line("all", total))
	t.Logf("conformance with PVE 8.4:\n%s", strings.Join(lines, "\n"))
	if real {
		return
	}
	if float64(total.listed) > maxListed*float64(total.shown) {
		t.Errorf("%d of %d rows are listed as exceptions, at most %.0f %% may be", total.listed, total.shown, 100*maxListed)
	}
	for i, e := range c.exceptions {
		if !c.used[i] && !t.Failed() {
			t.Errorf("row %d of %s is listed as an exception, but agrees: take it off the list", e.N, e.Table)
		}
	}
}

// TestConformance asks what a PVE 8.4.21 was asked and wants its answers: of the simulator, or with PROXMOX_VE_ENDPOINT set
// of a real cluster, as far as that can be asked without killing workers or changing it from outside.
func TestConformance(t *testing.T) {
	t.Parallel()
	c := newConformance(t)
	if os.Getenv("PROXMOX_VE_ENDPOINT") != "" {
		conformanceCluster(t, c)
		return
	}
	t.Run("calls", func(t *testing.T) { conformanceCalls(t, c, newConformer(t)) })
	t.Run("values", func(t *testing.T) { conformanceValues(t, c, newConformer(t)) })
	t.Run("running", func(t *testing.T) { conformanceRunning(t, c) })
	t.Run("privileges", func(t *testing.T) { conformancePrivileges(t, c) })
	c.report(t, false)
}
