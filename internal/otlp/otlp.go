// Package otlp tells an OpenTelemetry collector what operations do: a span for each operation, step, request and wait. It does
// nothing at all unless the environment names a collector, and then what OpenTelemetry's own variables say.
package otlp

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
)

const (
	// every is how often spans that have ended are sent, so that a provider that is killed has told nearly all that it did.
	every = time.Second
	// parting is how long a provider may still send when it ends: Terraform waits for two seconds before it kills it (go-plugin
	// client.go, Kill).
	parting = 1500 * time.Millisecond
	// service is what the provider is called, unless OTEL_SERVICE_NAME says otherwise.
	service = "terraform-provider-proxmox"
)

// Exporter sends spans to a collector. It is an account.Tracer.
type Exporter struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	parent   trace.SpanContext // that of TRACEPARENT
}

// New makes the Exporter that the environment asks for; nil if it asks for none, or for what the provider does not speak, which is the
// error. It connects nowhere yet.
func New(ctx context.Context, version string, getenv func(string) string) (*Exporter, error) {
	if !asked(getenv) {
		return nil, nil //nolint:nilnil // nobody asked
	}
	if err := understood(getenv); err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	// What the environment says comes last, and so holds.
	who, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", service),
		attribute.String("service.version", version)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, err
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter, sdk.WithBatchTimeout(every)), sdk.WithResource(who))
	parent := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(ctx, environment(getenv)))
	return &Exporter{provider: provider, tracer: provider.Tracer(service), parent: parent}, nil
}

// asked tells whether the environment names a collector.
func asked(getenv func(string) string) bool {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// understood refuses what would be sent in a way that the collector does not expect.
func understood(getenv func(string) string) error {
	protocol := getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	if protocol != "" && protocol != "http/protobuf" {
		return errors.New("no traces are sent: OTEL_EXPORTER_OTLP_PROTOCOL is " + protocol + ", and this provider speaks http/protobuf only")
	}
	return nil
}

// environment carries what comes in TRACEPARENT and TRACESTATE.
type environment func(string) string

// Get gives a header's value.
func (e environment) Get(key string) string { return e(strings.ToUpper(key)) }

// Set does nothing: nothing is passed on.
func (environment) Set(string, string) {}

// Keys lists the headers.
func (environment) Keys() []string { return []string{"traceparent", "tracestate"} }

// Begin begins a span, below the one that the context has, else below the one of TRACEPARENT.
func (e *Exporter) Begin(ctx context.Context, name string, about ...account.Attribute) (context.Context, account.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, e.parent)
	}
	kind := trace.SpanKindInternal
	if slices.ContainsFunc(about, func(a account.Attribute) bool { return a.Key == "http.request.method" }) {
		kind = trace.SpanKindClient
	}
	ctx, s := e.tracer.Start(ctx, name, trace.WithAttributes(attributes(about)...), trace.WithSpanKind(kind))
	return ctx, span{s}
}

// Close sends what is left, for as long as Terraform waits for it.
func (e *Exporter) Close() error {
	if e == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	return e.provider.Shutdown(ctx)
}

type span struct{ trace.Span }

// End ends it.
func (s span) End(failed string, about ...account.Attribute) {
	s.SetAttributes(attributes(about)...)
	if failed != "" && failed != "ok" && failed != "warning" {
		s.SetStatus(codes.Error, failed)
	}
	s.Span.End()
}

func attributes(about []account.Attribute) []attribute.KeyValue {
	all := make([]attribute.KeyValue, len(about))
	for i, a := range about {
		all[i] = attribute.Int64(a.Key, a.Number)
		if a.IsText {
			all[i] = attribute.String(a.Key, a.Text)
		}
	}
	return all
}
