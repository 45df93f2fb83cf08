package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Outcome is the result of a Terraform command.
type Outcome struct {
	OK      bool
	Changes bool // of a plan: there is something to do
	Text    string
}

// Terraform is a working directory, of a program or of what stands for it.
type Terraform interface {
	// Configure replaces the configuration and the values of its variables.
	Configure(config string, variables map[string]string) error
	Plan(ctx context.Context) Outcome
	Apply(ctx context.Context) Outcome
	Destroy(ctx context.Context) Outcome
	Replace(ctx context.Context, address string) Outcome
	Import(ctx context.Context, address, id string) Outcome
	Forget(ctx context.Context, address string) Outcome
	// Generate imports by a block and lets Terraform write the configuration, which is that of the directory from then on.
	Generate(ctx context.Context, address, id string) Outcome
	// Interrupt applies, and interrupts that once as soon as ready returns.
	Interrupt(ctx context.Context, ready func(context.Context) error) Outcome
	// Attributes are those of a resource in state, by path: disks.scsi0.size. Null ones are not among them.
	Attributes(ctx context.Context, address string) (map[string]string, error)
}

// emptyProvider is the provider block of every configuration: the environment has the rest.
const emptyProvider = "provider \"proxmox\" {}"

// unframed removes the frame that Terraform draws around its messages, and its line breaks.
func unframed(text string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(text)), " ")
}

// flattened takes a value apart: disks.scsi0.size, tags.0.
func flattened(raw []byte) (map[string]string, error) {
	var value any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	all := map[string]string{}
	flatten(all, "", value)
	return all, nil
}

func flatten(all map[string]string, at string, value any) {
	below := func(name string) string {
		if at == "" {
			return name
		}
		return at + "." + name
	}
	switch value := value.(type) {
	case nil:
	case map[string]any:
		for name, member := range value {
			flatten(all, below(name), member)
		}
	case []any:
		all[below("#")] = strconv.Itoa(len(value))
		for i, member := range value {
			flatten(all, below(strconv.Itoa(i)), member)
		}
	default:
		all[at] = fmt.Sprint(value)
	}
}
