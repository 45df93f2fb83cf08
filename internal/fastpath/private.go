package fastpath

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// parsePrivate reads private state. ok is false if the framework has something of its own in it, or would write it another way.
func parsePrivate(raw []byte) (noted map[string][]byte, ok bool) {
	if len(raw) == 0 {
		return nil, true
	}
	if json.Unmarshal(raw, &noted) != nil || len(noted) == 0 {
		return nil, false
	}
	for key := range noted {
		if strings.HasPrefix(key, ".") {
			return nil, false
		}
	}
	again, err := json.Marshal(noted)
	return noted, err == nil && bytes.Equal(again, raw)
}

// keeper is the framework's private state of a resource, a type that has no name here.
type keeper[P any] interface {
	*P
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// storeIn makes a new private state of the type of another.
func storeIn[P any, K keeper[P]](ctx context.Context, _ K, noted map[string][]byte) (K, bool) {
	store := K(new(P))
	for key, value := range noted {
		if len(value) == 0 || len(store.SetKey(ctx, key, value)) > 0 {
			return store, false
		}
	}
	return store, true
}
