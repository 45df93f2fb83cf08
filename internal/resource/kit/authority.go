package kit

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
)

// madeIn notes the certificate authority of an object's cluster, where only name and content tell the object from
// another cluster's.
const madeIn Note[string] = "cluster"

// NoteCluster notes the cluster of an object after a create, a read or an import. The first note stays: a refresh in
// another cluster is warned of.
func (s *Session) NoteCluster(ctx context.Context, a Attempt, from PrivateReader, to PrivateWriter) diag.Diagnostics {
	if err := s.CheckCluster(ctx, from); err != nil {
		return diag.Diagnostics{diag.NewWarningDiagnostic(sentence(a.Thing)+" may be another cluster's",
			err.Error()+".")}
	}
	if id := s.API.Authority(); id != "" {
		return madeIn.Write(ctx, to, id)
	}
	return nil
}

// CheckCluster is the error for an object that was made in another cluster. It makes no request: a server that has not
// answered yet is not judged, nor one whose certificate is of another authority than PVE's own.
func (s *Session) CheckCluster(ctx context.Context, private PrivateReader) error {
	noted, diags := madeIn.Read(ctx, private)
	now := s.API.Authority()
	if diags.HasError() || noted == "" || now == "" || noted == now {
		return nil
	}
	return &guest.FieldError{Summary: "it may be another cluster's", Detail: fmt.Sprintf("The state is of a cluster "+
		"whose certificate authority is %s, and that of %s is %s. Name and content do not tell the object "+
		"from another of that cluster, so it is neither changed nor removed. Correct the endpoint. If the cluster has "+
		"another authority now, as after it was installed again: `terraform state rm` with the address, `terraform import`",
		noted, s.API.Endpoint(), now)}
}
