package main

import (
	"bytes"
	"context"
	"testing"
)

// TestStoryInProcess tells the story without any Terraform, so that it stays true where there is none.
func TestStoryInProcess(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), &out, options{inProcess: true}); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}
