package terraformtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// listBlock is a list block of a query.
type listBlock struct {
	addr, typ      string
	limit, include hcl.Expression
	config         hcl.Attributes
}

// parseQuery reads a .tfquery.hcl file.
func parseQuery(text string) ([]listBlock, error) {
	file, diags := hclsyntax.ParseConfig([]byte(text), "main.tfquery.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		return nil, diags
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok || len(body.Attributes) > 0 {
		return nil, errors.New("a query has blocks only")
	}
	var all []listBlock
	for _, block := range body.Blocks {
		if block.Type != "list" || len(block.Labels) != 2 {
			return nil, fmt.Errorf("%s blocks with %d labels are not expected here", block.Type, len(block.Labels))
		}
		b := listBlock{addr: "list." + strings.Join(block.Labels, "."), typ: block.Labels[0], config: hcl.Attributes{}}
		if slices.ContainsFunc(all, func(other listBlock) bool { return other.addr == b.addr }) {
			return nil, fmt.Errorf("the query already has a list block %s", b.addr)
		}
		named := false
		for name, a := range block.Body.Attributes {
			switch name {
			case "provider":
				named = true
			case "limit":
				b.limit = a.Expr
			case "include_resource":
				b.include = a.Expr
			default:
				return nil, fmt.Errorf("%s: the driver does not know %s", b.addr, name)
			}
		}
		if !named {
			return nil, fmt.Errorf("%s: a list block names its provider", b.addr)
		}
		for _, inner := range block.Body.Blocks {
			if inner.Type != "config" {
				return nil, fmt.Errorf("%s: unexpected block %s", b.addr, inner.Type)
			}
			if b.config, diags = inner.Body.JustAttributes(); diags.HasErrors() {
				return nil, diags
			}
		}
		all = append(all, b)
	}
	return all, nil
}
