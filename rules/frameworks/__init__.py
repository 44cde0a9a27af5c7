"""Training steps that a framework owns: of Accelerate, Lightning, Fabric, Hugging Face."""
