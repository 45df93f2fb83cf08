package lint

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// The program's exit codes.
const (
	exitClean = iota
	exitFindings
	exitBadInput
)

const usage = `usage: terraform-provider-proxmox lint [-json] [-recursive] [DIR...]

Finds keys that the provider does not know. Terraform drops them from the value of an attribute without a word.
DIR is a configuration, by default the current folder; modules that it calls by a local path are read, too.

`

// Program is the provider's own command "lint".
type Program struct {
	Address string // the provider's source address
	Server  tfprotov6.ProviderServer
	Out     io.Writer
	Err     io.Writer
}

// Run runs the program with its arguments and returns the exit code: 1 with findings, 2 for bad input.
func (p Program) Run(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("lint", flag.ContinueOnError)
	flags.SetOutput(p.Err)
	flags.Usage = func() {
		fmt.Fprint(p.Err, usage)
		flags.PrintDefaults()
	}
	asJSON := flags.Bool("json", false, "print one JSON document")
	recursive := flags.Bool("recursive", false, "check every configuration below DIR on its own")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitClean
	} else if err != nil {
		return exitBadInput
	}
	found, err := p.check(ctx, flags.Args(), *recursive)
	if err != nil {
		fmt.Fprintln(p.Err, "lint:", err)
		return exitBadInput
	}
	if *asJSON {
		err = found.writeJSON(p.Out)
	} else {
		err = found.write(p.Out, p.Err)
	}
	switch {
	case err != nil:
		fmt.Fprintln(p.Err, "lint:", err)
		return exitBadInput
	case len(found.Findings) > 0:
		return exitFindings
	}
	return exitClean
}

func (p Program) check(ctx context.Context, dirs []string, recursive bool) (report, error) {
	described, err := p.Server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return report{}, err
	}
	schema, err := NewSchema(p.Address, described)
	if err != nil {
		return report{}, err
	}
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	var all report
	for _, dir := range dirs {
		below := []string{dir}
		if recursive {
			if below, err = Configurations(dir); err != nil {
				return report{}, err
			}
		}
		if len(below) == 0 {
			return report{}, fmt.Errorf("%s: %w", dir, ErrNoConfiguration)
		}
		for _, one := range below {
			result, err := schema.Dir(one)
			if err != nil {
				return report{}, err
			}
			all.add(result)
		}
	}
	return all, nil
}

// report is the result of all configurations.
type report struct {
	Result
	seen map[string]bool
}

// add adds the result of a configuration. Several may call one module.
func (r *report) add(one Result) {
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.Blocks += one.Blocks
	r.Unjudged = append(r.Unjudged, one.Unjudged...)
	for _, f := range one.Findings {
		if at := f.Range.String(); !r.seen[at] {
			r.seen[at] = true
			r.Findings = append(r.Findings, f)
		}
	}
}

func (r *report) write(out, rest io.Writer) error {
	for _, f := range r.Findings {
		if _, err := fmt.Fprintf(out, "%s:%d:%d: %s\n", f.Range.Filename, f.Range.Start.Line, f.Range.Start.Column,
			f.Message()); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(rest, "blocks of the provider: %d, findings: %d, not judged: %d\n",
		r.Blocks, len(r.Findings), len(r.Unjudged))
	return err
}

// The document that -json prints.
type (
	document struct {
		Version  string          `json:"format_version"`
		Blocks   int             `json:"blocks"`
		Findings []documentEntry `json:"findings"`
		Unjudged []documentPlace `json:"not_judged"`
	}
	documentEntry struct {
		documentPlace
		Kind       string `json:"kind"`
		Address    string `json:"address"`
		Path       string `json:"path"`
		Key        string `json:"key"`
		Suggestion string `json:"suggestion,omitempty"`
		Message    string `json:"message"`
	}
	documentPlace struct {
		File   string `json:"file"`
		Line   int    `json:"line"`
		Column int    `json:"column"`
	}
)

func (r *report) writeJSON(out io.Writer) error {
	d := document{Version: "1.0", Blocks: r.Blocks, Findings: []documentEntry{}, Unjudged: []documentPlace{}}
	for _, f := range r.Findings {
		kind := "unknown"
		if f.Deprecated != "" {
			kind = "deprecated"
		}
		d.Findings = append(d.Findings, documentEntry{Kind: kind, Address: f.Address, Path: f.Path, Key: f.Key,
			Suggestion: f.Suggestion, Message: f.Message(),
			documentPlace: documentPlace{f.Range.Filename, f.Range.Start.Line, f.Range.Start.Column}})
	}
	for _, at := range r.Unjudged {
		d.Unjudged = append(d.Unjudged, documentPlace{at.Filename, at.Start.Line, at.Start.Column})
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(d)
}
