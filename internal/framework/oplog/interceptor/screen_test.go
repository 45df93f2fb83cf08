package interceptor

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// hostile clears the screen, shows a success in green, conceals what follows and turns its direction.
const hostile = "a\x1b[2J\x1b[32mApply complete!\x1b[8m\r\a\u009b\u202e\u2066\u2028\x7f\x00\xff\nb\tc"

// shown is what the user sees of it.
const shown = `a\x1b[2J\x1b[32mApply complete!\x1b[8m\x0d\x07\x9b\u202e\u2066\u2028\x7f\x00\xff` + "\nb\tc"

func bad() []*tfprotov6.Diagnostic {
	return []*tfprotov6.Diagnostic{{Severity: tfprotov6.DiagnosticSeverityError, Summary: hostile, Detail: hostile}}
}

// TestScreenPassesNoControlCharacters: whatever Terraform calls, no text with a control character comes back, in an answer
// or in an error.
func TestScreenPassesNoControlCharacters(t *testing.T) {
	for _, failed := range []error{nil, errors.New(hostile)} {
		server := reflect.ValueOf(New(speaker{err: failed}, Options{Silent: true}))
		calls := reflect.TypeFor[Backend]()
		for n := range calls.NumMethod() {
			name := calls.Method(n).Name
			request := reflect.New(calls.Method(n).Type.In(1).Elem())
			out := server.MethodByName(name).Call([]reflect.Value{reflect.ValueOf(t.Context()), request})
			texts := textsOf(out[0])
			if err, isError := out[1].Interface().(error); isError {
				texts = append(texts, err.Error())
			} else if failed != nil {
				t.Errorf("%s: the error is lost", name)
			}
			if len(texts) == 0 {
				t.Errorf("%s says nothing, so nothing was tried", name)
			}
			for _, text := range texts {
				if text != shown {
					t.Errorf("%s passes %q", name, text)
				}
			}
		}
	}
}

// textsOf are all texts of an answer.
func textsOf(v reflect.Value) (all []string) {
	switch v.Kind() {
	case reflect.String:
		if v.String() != "" {
			all = append(all, v.String())
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			all = textsOf(v.Elem())
		}
	case reflect.Struct:
		for n := range v.NumField() {
			all = append(all, textsOf(v.Field(n))...)
		}
	case reflect.Slice:
		for n := range v.Len() {
			all = append(all, textsOf(v.Index(n))...)
		}
	case reflect.Func: // a stream
		if !v.IsNil() {
			for each := range v.Seq() {
				all = append(all, textsOf(each)...)
			}
		}
	}
	return all
}

// TestScreenLeavesPlainTexts: what people write, in any script, stays as it is.
func TestScreenLeavesPlainTexts(t *testing.T) {
	for _, text := range []string{"", "Cannot create VM 100 on pve1", "Größe 日本語 عربى 👩\u200d💻", "a\n\tb"} {
		if got := clean(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestScreenStopsWhereTheCallerStops: a caller that wants no more events gets none.
func TestScreenStopsWhereTheCallerStops(t *testing.T) {
	server, ok := New(speaker{}, Options{Silent: true}).(Backend)
	if !ok {
		t.Fatal("not all calls are served")
	}
	stream, err := server.InvokeAction(t.Context(), &tfprotov6.InvokeActionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range stream.Events {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d events", n)
	}
}

// speaker is a server that says hostile texts in every answer.
type speaker struct{ err error }

func (s speaker) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{Error: hostile}, s.err
}

func (s speaker) CallFunction(context.Context, *tfprotov6.CallFunctionRequest) (*tfprotov6.CallFunctionResponse, error) {
	return &tfprotov6.CallFunctionResponse{Error: &tfprotov6.FunctionError{Text: hostile}}, s.err
}

func (s speaker) InvokeAction(context.Context, *tfprotov6.InvokeActionRequest) (*tfprotov6.InvokeActionServerStream, error) {
	if s.err != nil {
		return nil, s.err
	}
	return &tfprotov6.InvokeActionServerStream{Events: slices.Values([]tfprotov6.InvokeActionEvent{
		{Type: tfprotov6.ProgressInvokeActionEventType{Message: hostile}}, {Type: tfprotov6.CompletedInvokeActionEventType{Diagnostics: bad()}}})}, nil
}

func (s speaker) ListResource(context.Context, *tfprotov6.ListResourceRequest) (*tfprotov6.ListResourceServerStream, error) {
	if s.err != nil {
		return nil, s.err
	}
	return &tfprotov6.ListResourceServerStream{Results: slices.Values([]tfprotov6.ListResourceResult{{DisplayName: hostile, Diagnostics: bad()}})}, nil
}

func (s speaker) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	return &tfprotov6.GetMetadataResponse{Diagnostics: bad()}, s.err
}

func (s speaker) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return &tfprotov6.GetProviderSchemaResponse{Diagnostics: bad()}, s.err
}

func (s speaker) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{Diagnostics: bad()}, s.err
}

func (s speaker) ValidateProviderConfig(context.Context, *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{Diagnostics: bad()}, s.err
}

func (s speaker) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	return &tfprotov6.ConfigureProviderResponse{Diagnostics: bad()}, s.err
}

func (s speaker) ValidateResourceConfig(context.Context, *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{Diagnostics: bad()}, s.err
}

func (s speaker) UpgradeResourceState(context.Context, *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	return &tfprotov6.UpgradeResourceStateResponse{Diagnostics: bad()}, s.err
}

func (s speaker) ReadResource(context.Context, *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	return &tfprotov6.ReadResourceResponse{Diagnostics: bad()}, s.err
}

func (s speaker) PlanResourceChange(context.Context, *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	return &tfprotov6.PlanResourceChangeResponse{Diagnostics: bad()}, s.err
}

func (s speaker) ApplyResourceChange(context.Context, *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	return &tfprotov6.ApplyResourceChangeResponse{Diagnostics: bad()}, s.err
}

func (s speaker) ImportResourceState(context.Context, *tfprotov6.ImportResourceStateRequest) (*tfprotov6.ImportResourceStateResponse, error) {
	return &tfprotov6.ImportResourceStateResponse{Diagnostics: bad()}, s.err
}

func (s speaker) MoveResourceState(context.Context, *tfprotov6.MoveResourceStateRequest) (*tfprotov6.MoveResourceStateResponse, error) {
	return &tfprotov6.MoveResourceStateResponse{Diagnostics: bad()}, s.err
}

func (s speaker) UpgradeResourceIdentity(context.Context, *tfprotov6.UpgradeResourceIdentityRequest) (*tfprotov6.UpgradeResourceIdentityResponse, error) {
	return &tfprotov6.UpgradeResourceIdentityResponse{Diagnostics: bad()}, s.err
}

func (s speaker) GenerateResourceConfig(context.Context, *tfprotov6.GenerateResourceConfigRequest) (*tfprotov6.GenerateResourceConfigResponse, error) {
	return &tfprotov6.GenerateResourceConfigResponse{Diagnostics: bad()}, s.err
}

func (s speaker) ValidateDataResourceConfig(context.Context, *tfprotov6.ValidateDataResourceConfigRequest) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return &tfprotov6.ValidateDataResourceConfigResponse{Diagnostics: bad()}, s.err
}

func (s speaker) ReadDataSource(context.Context, *tfprotov6.ReadDataSourceRequest) (*tfprotov6.ReadDataSourceResponse, error) {
	return &tfprotov6.ReadDataSourceResponse{Diagnostics: bad()}, s.err
}

func (s speaker) GetFunctions(context.Context, *tfprotov6.GetFunctionsRequest) (*tfprotov6.GetFunctionsResponse, error) {
	return &tfprotov6.GetFunctionsResponse{Diagnostics: bad()}, s.err
}

func (s speaker) ValidateEphemeralResourceConfig(context.Context, *tfprotov6.ValidateEphemeralResourceConfigRequest) (*tfprotov6.ValidateEphemeralResourceConfigResponse, error) {
	return &tfprotov6.ValidateEphemeralResourceConfigResponse{Diagnostics: bad()}, s.err
}

func (s speaker) OpenEphemeralResource(context.Context, *tfprotov6.OpenEphemeralResourceRequest) (*tfprotov6.OpenEphemeralResourceResponse, error) {
	return &tfprotov6.OpenEphemeralResourceResponse{Diagnostics: bad()}, s.err
}

func (s speaker) RenewEphemeralResource(context.Context, *tfprotov6.RenewEphemeralResourceRequest) (*tfprotov6.RenewEphemeralResourceResponse, error) {
	return &tfprotov6.RenewEphemeralResourceResponse{Diagnostics: bad()}, s.err
}

func (s speaker) CloseEphemeralResource(context.Context, *tfprotov6.CloseEphemeralResourceRequest) (*tfprotov6.CloseEphemeralResourceResponse, error) {
	return &tfprotov6.CloseEphemeralResourceResponse{Diagnostics: bad()}, s.err
}

func (s speaker) ValidateListResourceConfig(context.Context, *tfprotov6.ValidateListResourceConfigRequest) (*tfprotov6.ValidateListResourceConfigResponse, error) {
	return &tfprotov6.ValidateListResourceConfigResponse{Diagnostics: bad()}, s.err
}

func (s speaker) ValidateActionConfig(context.Context, *tfprotov6.ValidateActionConfigRequest) (*tfprotov6.ValidateActionConfigResponse, error) {
	return &tfprotov6.ValidateActionConfigResponse{Diagnostics: bad()}, s.err
}

func (s speaker) PlanAction(context.Context, *tfprotov6.PlanActionRequest) (*tfprotov6.PlanActionResponse, error) {
	return &tfprotov6.PlanActionResponse{Diagnostics: bad()}, s.err
}
