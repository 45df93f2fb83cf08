// Command conformance turns recorded answers of a Proxmox VE server into the tables of the conformance suite.
//
//	go run ./internal/cmd/conformance RECORDED-DIR internal/acctest/testdata/conformance
//
// RECORDED-DIR holds transcripts.jsonl, transcripts-2.jsonl, values.jsonl, running.jsonl and privileges.jsonl, one JSON object a line. The tables
// say the same in fewer words and without the server they came from: storages, node and bridge are named by their role
// ({zfs}, {node} …), requests to tasks by the row that started them ({task 242}), and values that differ by nature by their
// form (~uuid~, ~number~ …), see internal/acctest.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: conformance RECORDED-DIR TABLE-DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", to, err)
	}
	for name, convert := range map[string]func([]object) ([]object, error){
		"transcripts": calls, "transcripts-2": calls, "values": values, "running": values, "privileges": privileges,
	} {
		rows, err := read(filepath.Join(from, name+".jsonl"))
		if err != nil {
			return err
		}
		table, err := convert(rows)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		name = strings.Replace(name, "transcripts", "calls", 1)
		if err := write(filepath.Join(to, name+".jsonl"), table); err != nil {
			return err
		}
	}
	return nil
}

// object is one row; its fields are as raw as they were recorded.
type object map[string]json.RawMessage

func (o object) text(key string) string {
	var s string
	_ = json.Unmarshal(o[key], &s) // absent or no string: empty
	return s
}

func (o object) number(key string) int {
	var n int
	_ = json.Unmarshal(o[key], &n)
	return n
}

func (o object) has(key string) bool { return len(o[key]) > 0 && string(o[key]) != "null" }

// set puts a value, or nothing if it is the zero value of its type.
func (o object) set(key string, value json.RawMessage) {
	switch string(value) {
	case "", "null", `""`, "{}", "0", "false":
		return
	}
	o[key] = value
}

func quote(s string) json.RawMessage {
	raw, _ := json.Marshal(s) // a string always can
	return raw
}

func read(name string) ([]object, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the recorded answers: %w", err)
	}
	var rows []object
	for line := range bytes.Lines(raw) {
		var row object
		if err := json.Unmarshal(line, &row); err != nil {
			return nil, fmt.Errorf("%s, row %d: %w", name, len(rows), err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func write(name string, rows []object) error {
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, row := range rows {
		if err := enc.Encode(row); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}
