package vm

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"testing"
)

// TestNeedsRestart holds the forecast against what a live PVE 8.4 did to a running guest: an option that is said to wait
// did wait in every recorded change.
func TestNeedsRestart(t *testing.T) {
	file, err := os.Open("../acctest/testdata/conformance/running.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	foretold, waited, rows := 0, 0, 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var row struct {
			Option       string
			Sent, Before *string
			Status       int
			Effect       string
			Delete       bool
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if row.Status != 200 || row.Delete || row.Sent == nil {
			continue
		}
		base := map[string]string{"ostype": "l26"}
		if row.Before != nil {
			base[row.Option] = *row.Before
		}
		changed := maps.Clone(base)
		changed[row.Option] = *row.Sent
		rows++
		options := NeedsRestart(Decode(base), Decode(changed))
		if row.Effect == "pending" {
			waited++
		}
		if len(options) > 0 {
			foretold++
			if row.Effect != "pending" {
				t.Errorf("%s = %s: a restart is foretold, and PVE says %q", row.Option, *row.Sent, row.Effect)
			}
		} else if row.Effect == "pending" {
			t.Logf("%s = %s waits and is not foretold", row.Option, *row.Sent)
		}
	}
	t.Logf("%d changes, %d waited for a restart, %d of them foretold", rows, waited, foretold)
	if foretold < waited*3/4 {
		t.Errorf("only %d of %d restarts are foretold", foretold, waited)
	}
}
