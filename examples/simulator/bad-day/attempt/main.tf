# An apply that has to fail, for a reason. `terraform test` can expect conditions to fail, but no apply: so it is a program that does.
variable "cli" {
  description = "terraform or tofu."
  type        = string
  default     = "terraform"
}

variable "reason" {
  description = "Words that the error has."
  type        = string
}

resource "terraform_data" "attempt" {
  provisioner "local-exec" {
    command = <<-EOT
      state=$(mktemp -d)
      if said=$("$CLI" apply -auto-approve -input=false -no-color -var name=web-unlucky -state="$state/terraform.tfstate" 2>&1); then
        echo "it has not failed"; exit 1
      fi
      echo "$said"
      echo "$said" | tr '\n' ' ' | grep -q "$REASON"
    EOT
    environment = {
      CLI    = var.cli
      REASON = var.reason
    }
  }
}
