package interceptor

import (
	"context"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

// outcome returns the result of an operation in one word, and the summary of its first error.
func outcome(ctx context.Context, said []*tfprotov6.Diagnostic, err error) (result, first string) {
	result = "ok"
	if err != nil {
		return "error", "" // the caller writes the error
	}
	for _, d := range said {
		switch {
		case d.Severity == tfprotov6.DiagnosticSeverityWarning && result == "ok":
			result = "warning"
		case d.Severity == tfprotov6.DiagnosticSeverityError && result != "error":
			result, first = "error", d.Summary
		}
	}
	if result == "error" && ctx.Err() != nil {
		result = "interrupted"
	}
	return result, first
}

// name adds the id of the operation to each error.
func name(said []*tfprotov6.Diagnostic, id string) {
	for _, d := range said {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			d.Detail += "\n\nOperation ID: " + id
		}
	}
}

// Fields returns a summary as fields of the log. Rare fields that are zero are left out.
func Fields(sum oplog.Summary) map[string]string {
	fields := map[string]string{
		"operation_id": sum.ID, "operation": sum.Name, "resource": sum.Type,
		"duration_ms": milliseconds(sum.Took),
		"reads":       strconv.Itoa(sum.Reads), "writes": strconv.Itoa(sum.Writes),
		"polls": strconv.Itoa(sum.Polls), "retries": strconv.Itoa(sum.Retries),
		"steps_done": strconv.Itoa(sum.StepsDone), "steps_undone": strconv.Itoa(sum.StepsUndone),
		"bytes_sent": strconv.FormatInt(sum.BytesSent, 10), "bytes_received": strconv.FormatInt(sum.BytesReceived, 10),
	}
	if sum.VMID != 0 {
		fields["vmid"] = strconv.Itoa(sum.VMID)
	}
	if sum.Node != "" {
		fields["node"] = sum.Node
	}
	if sum.Thing != "" {
		fields["thing"] = sum.Thing
	}
	if sum.Refused != "" {
		fields["refused_write"] = sum.Refused
	}
	if sum.Commands > 0 {
		fields["ssh_commands"] = strconv.Itoa(sum.Commands)
	}
	for _, kind := range oplog.Kinds() {
		if waited := sum.Waited[kind]; waited >= time.Millisecond {
			fields["wait_"+kind.String()+"_ms"] = milliseconds(waited)
		}
	}
	return fields
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
