// Package otlp sends traces of operations to an OpenTelemetry collector: a span for each operation, step, request and
// wait. It does nothing unless the environment names a collector. OpenTelemetry's own variables configure it.
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

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

const (
	// every is the interval at which ended spans are sent. A provider that is killed has then sent nearly all of them.
	every = time.Second
	// parting is the time in which an ending provider may still send. Terraform kills it after two seconds (go-plugin
	// client.go, Kill).
	parting = 1500 * time.Millisecond
	// service is the name of the service, unless OTEL_SERVICE_NAME gives another.
	service = "terraform-provider-proxmox"
)

// Exporter sends spans to a collector. It is an oplog.Tracer.
type Exporter struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	parent   trace.SpanContext // from TRACEPARENT
}

// New makes the Exporter that the environment configures; nil if it configures none. A protocol that the provider does
// not speak is an error. New does not connect.
func New(ctx context.Context, version string, getenv func(string) string) (*Exporter, error) {
	if !asked(getenv) {
		return nil, nil //nolint:nilnil // not configured
	}
	if err := understood(getenv); err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	// The environment comes last, and so takes precedence.
	who, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", service),
		attribute.String("service.version", version)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, err
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter, sdk.WithBatchTimeout(every)), sdk.WithResource(who))
	parent := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(ctx, environment(getenv)))
	return &Exporter{provider: provider, tracer: provider.Tracer(service), parent: parent}, nil
}

// asked reports whether the environment names a collector.
func asked(getenv func(string) string) bool {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// understood refuses a protocol that the provider does not speak.
func understood(getenv func(string) string) error {
	protocol := getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	if protocol != "" && protocol != "http/protobuf" {
		return errors.New("no traces are sent: OTEL_EXPORTER_OTLP_PROTOCOL is " + protocol +
			", and this provider speaks http/protobuf only")
	}
	return nil
}

// environment reads TRACEPARENT and TRACESTATE.
type environment func(string) string

// Get returns a header's value.
func (e environment) Get(key string) string { return e(strings.ToUpper(key)) }

// Set does nothing: the provider passes no trace on.
func (environment) Set(string, string) {}

// Keys returns the names of the headers.
func (environment) Keys() []string { return []string{"traceparent", "tracestate"} }

// Begin begins a span, below that of the context, or else below that of TRACEPARENT.
func (e *Exporter) Begin(ctx context.Context, name string, about ...oplog.Attribute) (context.Context, oplog.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, e.parent)
	}
	kind := trace.SpanKindInternal
	if slices.ContainsFunc(about, func(a oplog.Attribute) bool { return a.Key == "http.request.method" }) {
		kind = trace.SpanKindClient
	}
	ctx, s := e.tracer.Start(ctx, name, trace.WithAttributes(attributes(about)...), trace.WithSpanKind(kind))
	return ctx, span{s}
}

// Close sends the remaining spans, for as long as Terraform waits.
func (e *Exporter) Close() error {
	if e == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	return e.provider.Shutdown(ctx)
}

type span struct{ trace.Span }

// End ends the span.
func (s span) End(failed string, about ...oplog.Attribute) {
	s.SetAttributes(attributes(about)...)
	if failed != "" && failed != "ok" && failed != "warning" {
		s.SetStatus(codes.Error, failed)
	}
	s.Span.End()
}

func attributes(about []oplog.Attribute) []attribute.KeyValue {
	all := make([]attribute.KeyValue, len(about))
	for i, a := range about {
		all[i] = attribute.Int64(a.Key, a.Number)
		if a.IsText {
			all[i] = attribute.String(a.Key, a.Text)
		}
	}
	return all
}
