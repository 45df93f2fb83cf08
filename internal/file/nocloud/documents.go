package nocloud

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Kind is the purpose of a document.
type Kind string

// The kinds of documents that cloud-init reads.
const (
	User    Kind = "user-data"
	Meta    Kind = "meta-data"
	Network Kind = "network-config"
	Vendor  Kind = "vendor-data"
)

// Check returns what cloud-init would not understand of a document, as far as its text tells; nil: nothing. The error
// completes a sentence that begins "As it is now". It shows nothing of the document, which may hold passwords.
func Check(kind Kind, text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	switch kind {
	case Meta:
		_, err := mapping(text)
		return err
	case Network:
		return checkNetwork(text)
	case User, Vendor:
	}
	return checkUserData(text)
}

// headers returns the beginnings by which cloud-init tells the format of user data (cloud-init handlers/__init__.py
// INCLUSION_TYPES_MAP). It ignores case and leading space.
func headers() []string {
	return []string{"#include", "#!", "#cloud-config", "#part-handler", "#cloud-boothook", "## template: jinja"}
}

// checkUserData requires a known beginning, and YAML behind #cloud-config. cloud-init ignores any other document, with
// only a line in its log.
func checkUserData(text string) error {
	start := strings.ToLower(strings.TrimSpace(text))
	if strings.Contains(start[:min(len(start), 4096)], "mime-version:") { // cloud-init user_data.py convert_string
		return nil
	}
	known := headers()
	if !slices.ContainsFunc(known, func(h string) bool { return strings.HasPrefix(start, h) }) {
		return fmt.Errorf("its first line is of no known kind, and cloud-init ignores a document that neither begins with "+
			"one of %s nor is a MIME message", strings.Join(known, ", "))
	}
	line, _, _ := strings.Cut(start, "\n")
	if strings.TrimSpace(line) != "#cloud-config" && !strings.HasPrefix(line, "#cloud-config ") {
		return nil // a script, a list of addresses, a template …
	}
	_, err := mapping(text)
	return err
}

// checkNetwork requires a version that exists, at the top or below "network".
func checkNetwork(text string) error {
	top, err := mapping(text)
	if err != nil {
		return err
	}
	if inner, ok := top["network"]; ok && inner.Kind == yaml.MappingNode {
		top = fields(inner)
	}
	version, ok := top["version"]
	if config, has := top["config"]; has && config.Value == "disabled" { // cloud-init stages.py
		return nil
	}
	if !ok {
		return errors.New(`it has no "version"`)
	}
	if version.Value != "1" && version.Value != "2" {
		return errors.New("its version is neither 1 nor 2")
	}
	return nil
}

// fault is what YAML says to a text. It names lines, and no words of the text but anchors: a value that begins with "*"
// is an alias to it. The line is mostly that in which the part with the error begins, and its parser counts from zero
// where its scanner counts from one (go.yaml.in/yaml/v3 decode.go, fail).
func fault(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if before, _, ok := strings.Cut(text, "anchor '"); ok {
		text = before + "(an anchor): a value that begins with \"*\" or \"&\" needs quotes"
	}
	number, problem, _ := strings.Cut(strings.TrimPrefix(text, "line "), ": ")
	line, err := strconv.Atoi(number)
	if err != nil {
		return text
	}
	if strings.HasPrefix(problem, "did not find expected") {
		line++
	}
	return fmt.Sprintf("at or after line %d: %s", line, problem)
}

// mapping reads a document that must be a mapping. An empty document is one.
func mapping(text string) (map[string]*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, fmt.Errorf("it is no YAML: %s", fault(err))
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	if document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it is YAML, but no mapping of keys to values")
	}
	return fields(document.Content[0]), nil
}

// fields returns the keys of a mapping. Merges (<<) and aliases are resolved.
func fields(node *yaml.Node) map[string]*yaml.Node {
	all := map[string]*yaml.Node{}
	merge(all, node, map[*yaml.Node]bool{})
	return all
}

// merge adds the missing keys of a mapping, or of a list of mappings. A mapping that merges itself is visited once.
func merge(all map[string]*yaml.Node, node *yaml.Node, met map[*yaml.Node]bool) {
	if node = meant(node); met[node] {
		return
	}
	met[node] = true
	if node.Kind == yaml.SequenceNode {
		for _, each := range node.Content {
			merge(all, each, met)
		}
		return
	}
	var merged []*yaml.Node
	own := map[string]*yaml.Node{} // the last of two equal keys counts
	for i := 0; i+1 < len(node.Content); i += 2 {
		if key, value := node.Content[i], node.Content[i+1]; key.Tag == "!!merge" {
			merged = append(merged, value)
		} else {
			own[key.Value] = meant(value)
		}
	}
	for key, value := range own {
		if all[key] == nil {
			all[key] = value
		}
	}
	for _, each := range merged {
		merge(all, each, met)
	}
}

// meant returns the node that an alias stands for, or the node itself.
func meant(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
