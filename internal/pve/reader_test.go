package pve

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/transport"
)

// TestReaderSendsOnlyGET calls every method that can be reached from a Reader, with answers of all shapes, and from a
// Client, to show that the same walk does find writes.
func TestReaderSendsOnlyGET(t *testing.T) {
	reads := walk(t, func(c *Client) reflect.Value { return reflect.ValueOf(c.Reader()) })
	for name, call := range reads {
		if slices.ContainsFunc(call.sent, func(method string) bool { return method != http.MethodGet }) {
			t.Errorf("%s sent %q", name, call.sent)
		}
		if !call.succeeded {
			t.Errorf("%s succeeded with none of the answers: what it sends after the first one is not known", name)
		}
		if strings.Contains(name, "Client.") {
			t.Errorf("%s can be reached from a Reader", name)
		}
	}
	if len(reads) < 40 {
		t.Errorf("only %d methods were found", len(reads))
	}
	writes := 0
	for _, call := range walk(t, func(c *Client) reflect.Value { return reflect.ValueOf(c) }) {
		if slices.ContainsFunc(call.sent, func(method string) bool { return method != http.MethodGet }) {
			writes++
		}
	}
	t.Logf("%d methods of a Reader, %d writes of a Client", len(reads), writes)
	if writes < 35 {
		t.Errorf("only %d writes were found among the methods of a Client", writes)
	}
}

// call is what a method did over all answers.
type call struct {
	sent      []string // HTTP methods
	succeeded bool
}

// shapes are answers that each method finds one among that it can read.
func shapes() []string {
	return []string{`null`, `1`, `"x"`, `[]`, `{}`, `[{}]`, `{"/vms":{"VM.Audit":1}}`, `[{"poolid":"x","members":[]}]`,
		`{"status":"stopped","exitstatus":"OK"}`, `{"time":"1"}`, `[{"n":1,"t":"TASK OK"}]`, `"` + string(taskUPID) + `"`}
}

// walk calls the methods of a value and of the nouns that they return, with each of the shapes as the answer.
func walk(t *testing.T, from func(*Client) reflect.Value) map[string]*call {
	calls := map[string]*call{}
	for _, shape := range shapes() {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, Config{Endpoint: "https://pve", APIToken: testToken})
			var sent []string
			c.send = func(_ context.Context, r *transport.Request) (transport.Answer, error) {
				sent = append(sent, r.Method)
				if len(sent) > 20 {
					return transport.Answer{}, &Error{Op: r.Op, Kind: Denied, Message: "it asks too often"}
				}
				return transport.Answer{Data: []byte(shape)}, nil
			}
			visit(t, from(c), func(name string, do func() bool) {
				if calls[name] == nil {
					calls[name] = &call{}
				}
				sent = nil
				if do() {
					calls[name].succeeded = true
				}
				calls[name].sent = append(calls[name].sent, sent...)
			})
		})
	}
	return calls
}

// visit gives each method of a value and of its nouns to a function, as something that can be done. It reports success.
func visit(t *testing.T, v reflect.Value, each func(name string, do func() bool)) {
	for i := range v.NumMethod() {
		method, name := v.Method(i), strings.TrimPrefix(v.Type().String(), "*")+"."+v.Type().Method(i).Name
		if out := method.Type(); out.NumOut() == 1 && isNoun(out.Out(0)) {
			visit(t, method.Call(arguments(t, method.Type()))[0], each)
			continue
		}
		each(name, func() bool {
			out := method.Call(arguments(t, method.Type()))
			if len(out) == 0 {
				return true
			}
			err, failed := out[len(out)-1].Interface().(error)
			return !failed || err == nil
		})
	}
}

// isNoun reports whether a type is a noun of the API: a Reader or a Client of something.
func isNoun(typ reflect.Type) bool {
	return typ.Kind() == reflect.Struct && typ.PkgPath() == reflect.TypeFor[Client]().PkgPath() &&
		(strings.HasSuffix(typ.Name(), "Reader") || strings.HasSuffix(typ.Name(), "Client"))
}

// arguments are some that a method takes.
func arguments(t *testing.T, typ reflect.Type) (all []reflect.Value) {
	for i := range typ.NumIn() {
		switch in := typ.In(i); in {
		case reflect.TypeFor[context.Context]():
			all = append(all, reflect.ValueOf(t.Context()))
		case reflect.TypeFor[UPID]():
			all = append(all, reflect.ValueOf(taskUPID))
		case reflect.TypeFor[[]string]():
			all = append(all, reflect.ValueOf([]string{"unused0"}))
		case reflect.TypeFor[Params]():
			all = append(all, reflect.ValueOf(Params{"vmid": "100"}))
		default:
			value := reflect.New(in).Elem()
			switch in.Kind() {
			case reflect.String:
				value.SetString("local:x")
			case reflect.Int:
				value.SetInt(100)
			}
			all = append(all, value)
		}
	}
	return all
}
