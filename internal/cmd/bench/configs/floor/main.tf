resource "terraform_data" "plain" {
  count = var.plain
  input = "plain-${count.index} ${var.generation}"
}

resource "terraform_data" "clone" {
  count = var.clones
  input = "clone-${count.index}"
}
