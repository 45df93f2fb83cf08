package fastpath

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
)

// parsePrivate reads private state. ok is false if the framework has something of its own in it, or would write it
// another way.
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

// importKey is what the framework notes in the private state of an import and takes out in the refresh after it, in
// which the identity may change (internal/privatestate/data.go ImportBeforeReadKey).
const importKey = ".import_before_read"

// afterImport is the private state that a refresh begins with: without the framework's note of an import.
func afterImport(raw []byte) []byte {
	var noted map[string][]byte
	if !bytes.Contains(raw, []byte(importKey)) || json.Unmarshal(raw, &noted) != nil {
		return raw
	}
	delete(noted, importKey)
	if len(noted) == 0 {
		return nil
	}
	again, err := json.Marshal(noted)
	if err != nil {
		return raw
	}
	return again
}

// Keeper is a resource that says what it notes in private state.
type Keeper interface {
	// PrivateKeys are all keys that it uses there.
	PrivateKeys() []string
}

// keeper is the framework's private state of a resource, a type that has no name here.
type keeper[P any] interface {
	*P
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
	Equal(other *P) bool
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

// privateOf is private state as the framework would write it: as it came where nothing was noted. ok is false if the
// resource does not say under which keys it notes something.
func privateOf[P any, K keeper[P]](ctx context.Context, r resource.Resource, store, before K, came []byte) (raw []byte,
	ok bool) {
	if store.Equal(before) {
		return came, true
	}
	k, ok := r.(Keeper)
	if !ok || store == nil {
		return nil, false
	}
	noted := map[string][]byte{}
	for _, key := range k.PrivateKeys() {
		value, diags := store.GetKey(ctx, key)
		if len(diags) > 0 {
			return nil, false
		}
		if len(value) > 0 {
			noted[key] = value
		}
	}
	again, ok := storeIn(ctx, store, noted)
	if !ok || !store.Equal(again) {
		return nil, false
	}
	if len(noted) == 0 {
		return nil, true
	}
	raw, err := json.Marshal(noted)
	return raw, err == nil
}
